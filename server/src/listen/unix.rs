//! Unix sockets, for clients on the same machine.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::{fs::FileTypeExt as _, net::UnixStream as Probe},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

use super::accept::Listener;
use crate::owner::Peer;

/// A listener on a Unix socket, whose file is removed on drop.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Listens at a path. Replaces a socket that no process listens at, such as one of a killed
    /// process.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        if is_socket && Probe::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        Ok(Self {
            listener: UnixListener::bind(path)?,
            path: path.to_owned(),
        })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Fails if the file was removed before.
        fs::remove_file(&self.path).ok();
    }
}

impl Listener for UnixSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.listener.accept().await?;
        Ok((stream, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()))
    }
}

//! Makes the messages of the gRPC API, and the descriptors that reflection tells clients, from
//! `inference.proto`.

use std::{error::Error, fs, path::Path};

use prost::Message as _;
use prost_build::Config;

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (protos, out) = (here.join(".."), here.join("../../src/grpc/proto"));
    let descriptors = protox::compile([protos.join("inference.proto")], [protos])?;
    fs::write(out.join("inference.bin"), descriptors.encode_to_vec())?;
    // Tensors stay where the message has them.
    Config::new().bytes(["."]).out_dir(out).compile_fds(descriptors)?;
    Ok(())
}

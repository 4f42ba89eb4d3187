//! Makes the messages and the service of the gRPC API, and the descriptors that reflection tells
//! clients, from `inference.proto`.

use std::{error::Error, fs, path::Path};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (protos, out) = (here.join(".."), here.join("../../src/grpc/proto"));
    let descriptors = protox::compile([protos.join("inference.proto")], [protos])?;
    fs::write(out.join("inference.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .codec_path("crate::grpc::codec::Codec")
        // Tensors stay where the message has them.
        .bytes(".")
        .out_dir(out)
        .compile_fds(descriptors)?;
    Ok(())
}

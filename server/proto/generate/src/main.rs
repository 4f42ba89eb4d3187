//! Generates the messages and the service of the gRPC API, and the descriptors for reflection, from
//! the .proto files.

use std::{error::Error, fs, path::Path};

use prost::Message as _;

/// Messages that REST also writes as JSON.
const WRITTEN: [&str; 14] = [
    "InferBatchStatistics",
    "InferStatistics",
    "LogSettingsResponse",
    "ModelConfig",
    "ModelInput",
    "ModelMetadataResponse",
    "ModelOutput",
    "ModelStatistics",
    "ModelStatisticsResponse",
    "ModelTransactionPolicy",
    "RepositoryIndexResponse",
    "ServerMetadataResponse",
    "StatisticDuration",
    "TraceSettingResponse",
];

/// Messages of one field. JSON has the field's value without its name.
const TRANSPARENT: [&str; 3] = [
    ".inference.InferParameter",
    ".inference.LogSettingsResponse.SettingValue",
    ".inference.TraceSettingResponse.SettingValue",
];

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (protos, out) = (here.join(".."), here.join("../../src/kserve/proto"));
    let descriptors = protox::compile([protos.join("inference.proto")], [protos])?;
    fs::write(out.join("inference.bin"), descriptors.encode_to_vec())?;
    let mut builder = tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .codec_path("crate::kserve::codec::Codec")
        // Tensors are slices of the received message, not copies.
        .bytes(".")
        // Sorted maps, so that the reported error is the same each time.
        .btree_map(".")
        .type_attribute(".inference.InferParameter", "#[derive(serde::Deserialize)]")
        .enum_attribute(
            ".inference.InferParameter.parameter_choice",
            r#"#[serde(untagged, expecting = "a parameter that is no boolean, number or string")]"#,
        )
        .enum_attribute(
            ".inference.LogSettingsResponse.SettingValue.parameter_choice",
            "#[serde(untagged)]",
        )
        .field_attribute(
            "data_type",
            r#"#[serde(serialize_with = "crate::kserve::serialize_data_type")]"#,
        )
        .field_attribute(
            ".inference.ModelInput.format",
            r#"#[serde(serialize_with = "crate::kserve::serialize_format")]"#,
        );
    for name in WRITTEN {
        builder =
            builder.type_attribute(format!(".inference.{name}"), "#[derive(serde::Serialize)]");
    }
    for name in TRANSPARENT {
        builder = builder.message_attribute(name, "#[serde(transparent)]");
    }
    builder.out_dir(out).compile_fds(descriptors)?;
    torchserve(here)
}

/// Generates the services of TorchServe.
fn torchserve(here: &Path) -> Result<(), Box<dyn Error>> {
    let (protos, out) = (here.join(".."), here.join("../../src/torchserve/proto"));
    let files = ["torchserve_inference.proto", "torchserve_management.proto"];
    let files = files.map(|file| protos.join(file));
    let descriptors = protox::compile(files, [protos])?;
    fs::create_dir_all(&out)?;
    fs::write(out.join("torchserve.bin"), descriptors.encode_to_vec())?;
    let builder = tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .codec_path("crate::kserve::codec::Codec")
        .bytes(".")
        .btree_map(".");
    builder.out_dir(out).compile_fds(descriptors)?;
    Ok(())
}

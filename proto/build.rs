//! Compiles the messages without protoc, and gives read-side messages their JSON: fields `*_at` become RFC 3339.

use std::error::Error;

use prost_build::Config;

const FILES: [&str; 7] = [
    "terms.proto",
    "agent.proto",
    "control.proto",
    "peer.proto",
    "log.proto",
    "state.proto",
    "history.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = FILES.iter().map(|file| format!("proto/{file}")).collect();
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(&files, ["proto"])?;
    let mut config = Config::new();
    config.type_attribute(".", "#[allow(missing_docs)]");
    for file in descriptors.file.iter().filter(|file| matches!(file.name(), "control.proto" | "terms.proto"))
    {
        for message in &file.message_type {
            let path = format!(".{}.{}", file.package(), message.name());
            config.type_attribute(&path, "#[derive(serde::Serialize)]");
            for field in
                message.field.iter().filter(|field| field.name().ends_with("_at") || field.name() == "at")
            {
                let with =
                    if field.proto3_optional() { "crate::json::maybe_moment" } else { "crate::json::moment" };
                config.field_attribute(
                    format!("{path}.{}", field.name()),
                    format!("#[serde(serialize_with = \"{with}\")]"),
                );
            }
        }
    }
    tonic_prost_build::configure().compile_fds_with_config(descriptors, config)?;
    Ok(())
}

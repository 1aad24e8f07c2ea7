//! Generates the transport's messages from `proto/raft.proto` with a compiler written in Rust, so that no
//! `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/raft.proto");
    let files = protox::compile(["raft.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}

//! Compiles the C++ that guards llama.cpp and that attaches the kernels to it, against the sources
//! that the binding brings.

#[cfg(feature = "llama")]
mod shim {
    use std::env;
    use std::path::PathBuf;
    use std::process::Command;

    use serde_json::Value;

    /// The version whose internal interfaces the shim uses.
    const BINDING: (&str, &str) = ("llama-cpp-sys-2", "0.1.161");
    const SHIM: &str = "src/backend/llama/cpu_kernels/shim.cpp";
    const MATMUL: &str = "src/backend/llama/cpu_kernels/matmul.cpp";
    const BUFFERS: &str = "src/backend/llama/cpu_kernels/buffers.cpp";
    const GUARD: &str = "src/backend/llama/ffi/guard.cpp";
    const HIDDEN: &str = "src/backend/llama/ffi/hidden.cpp";
    const HEADERS: [&str; 3] = [
        "src/backend/llama/cpu_kernels/matmul.h",
        "src/backend/llama/cpu_kernels/shim.h",
        "src/backend/llama/ffi/guard.h",
    ];
    const VISION: &str = "src/backend/llama/ffi/vision.cpp";
    /// More flags for its compiler, separated by spaces.
    const FLAGS: &str = "GRAPHMILL_SHIM_FLAGS";

    pub(super) fn build() {
        let mut sources = vec![GUARD, HIDDEN];
        if cfg!(feature = "cpu-kernels") {
            sources.extend([SHIM, MATMUL, BUFFERS]);
        }
        if cfg!(feature = "vision") {
            sources.push(VISION);
        }
        for source in sources.iter().chain(&HEADERS) {
            println!("cargo:rerun-if-changed={source}");
        }
        println!("cargo:rerun-if-env-changed={FLAGS}");
        let ggml = binding().join("llama.cpp/ggml");
        assert!(
            ggml.join("src/ggml-cpu/traits.h").is_file(),
            "`{}` has no sources of ggml's CPU backend",
            ggml.display()
        );
        let mut shim = cc::Build::new();
        shim.cpp(true).std("c++17").files(sources);
        for folder in [
            "include",
            "src",
            "src/ggml-cpu",
            "../include",
            "../src",
            "../tools/mtmd",
        ] {
            // Headers that are not ours, so without warnings.
            shim.flag("-isystem").flag(ggml.join(folder));
        }
        let flags = env::var(FLAGS).unwrap_or_default();
        shim.flags(flags.split_whitespace());
        shim.compile("graphmill_kernels_shim");
    }

    /// The folder of the binding's sources.
    fn binding() -> PathBuf {
        let (name, version) = BINDING;
        let mut packages = packages();
        packages.retain(|package| package["name"] == name);
        let [package] = packages.as_slice() else {
            panic!(
                "expected one `{name}` among the dependencies, not {}",
                packages.len()
            );
        };
        assert!(
            package["version"] == version,
            "`{SHIM}` is written for {name} {version}, and {} is used: compare what it includes, then change `BINDING`",
            package["version"]
        );
        let manifest = package["manifest_path"]
            .as_str()
            .expect("cargo names the manifest");
        let mut folder = PathBuf::from(manifest);
        folder.pop();
        folder
    }

    /// The packages that this one is built with, as cargo describes them.
    fn packages() -> Vec<Value> {
        let variable = |name| env::var(name).expect("cargo sets it for build scripts");
        let output = Command::new(variable("CARGO"))
            .args(["metadata", "--format-version", "1", "--filter-platform"])
            .arg(variable("TARGET"))
            .arg("--manifest-path")
            .arg(PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .output()
            .expect("cargo runs");
        assert!(
            output.status.success(),
            "`cargo metadata` does not say where `{}` is: {}",
            BINDING.0,
            String::from_utf8_lossy(&output.stderr)
        );
        let mut metadata: Value =
            serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
        match metadata["packages"].take() {
            Value::Array(packages) => packages,
            other => panic!("expected a list of packages from cargo, not {other}"),
        }
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "llama")]
    shim::build();
}

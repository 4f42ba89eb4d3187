// Builds `dist` from `src`: `node build.mjs [FOLDER]`. The same sources give the same bytes.

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/** The most bytes, compressed, of all files but the editor's. */
const MAX_GZIP_BYTES = 100_000;

const out = process.argv[2] ?? "dist";
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const files = (folder) => readdirSync(folder, { recursive: true, withFileTypes: true }).filter((it) => it.isFile()).map((it) => join(it.parentPath, it.name)).sort();

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  entryPoints: ["src/main.tsx", "src/styles/main.css"],
  outdir: out,
  entryNames: "[name]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022", "chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) copyFileSync(join("src", name), join(out, name));

const sources = ["build.mjs", "package-lock.json", "tsconfig.json", ...files("src")];
const digest = sha256(sources.map((file) => `${file} ${sha256(readFileSync(file))}\n`).join(""));
const built = Object.fromEntries(files(out).map((file) => [file.slice(out.length + 1), sha256(readFileSync(file))]));
writeFileSync(join(out, "manifest.json"), `${JSON.stringify({ sources: digest, files: built }, null, 1)}\n`);

const sizes = Object.keys(built).map((name) => [name, gzipSync(readFileSync(join(out, name)), { level: 9 }).length]);
const page = sizes.filter(([name]) => !name.startsWith("editor-")).reduce((sum, [, size]) => sum + size, 0);
for (const [name, size] of sizes) console.log(`${String(size).padStart(8)} ${name}`);
console.log(`${String(page).padStart(8)} bytes compressed, without the editor`);
if (page > MAX_GZIP_BYTES) {
  console.error(`error: more than ${MAX_GZIP_BYTES} bytes`);
  process.exit(1);
}

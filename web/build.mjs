// Builds `dist` from `src`: `node build.mjs [FOLDER]`. The same sources give the same bytes.

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/** The most bytes, compressed, of all files but the editor's and the page of `/docs`. */
const MAX_GZIP_BYTES = 100_000;

const out = process.argv[2] ?? "dist";
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const files = (folder) => readdirSync(folder, { recursive: true, withFileTypes: true }).filter((it) => it.isFile()).map((it) => join(it.parentPath, it.name)).sort();

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const options = {
  bundle: true,
  format: "esm",
  target: ["es2022", "chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
};
await build({
  ...options,
  entryPoints: ["src/main.tsx", "src/styles/main.css"],
  outdir: out,
  entryNames: "[name]",
  chunkNames: "[name]-[hash]",
  splitting: true,
});
for (const name of ["index.html", "icon.svg"]) copyFileSync(join("src", name), join(out, name));

// The page of `/docs` is one file: it is there without the other page, too.
const { outputFiles } = await build({
  ...options,
  entryPoints: ["src/docs/main.tsx", "src/styles/docs.css"],
  outdir: out,
  loader: { ".svg": "dataurl" },
  write: false,
});
const partOf = (ending) => outputFiles.find(({ path }) => path.endsWith(ending)).text;
const parts = { icon: `data:image/svg+xml;base64,${readFileSync("src/icon.svg", "base64")}`, style: partOf(".css"), script: partOf(".js") };
const docs = readFileSync("src/docs/index.html", "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
writeFileSync(join(out, "docs.html"), docs);

const sources = ["build.mjs", "package-lock.json", "tsconfig.json", ...files("src")];
const digest = sha256(sources.map((file) => `${file} ${sha256(readFileSync(file))}\n`).join(""));
const built = Object.fromEntries(files(out).map((file) => [file.slice(out.length + 1), sha256(readFileSync(file))]));
writeFileSync(join(out, "manifest.json"), `${JSON.stringify({ sources: digest, files: built }, null, 1)}\n`);

const sizes = Object.keys(built).map((name) => [name, gzipSync(readFileSync(join(out, name)), { level: 9 }).length]);
const page = sizes.filter(([name]) => !name.startsWith("editor-") && name !== "docs.html").reduce((sum, [, size]) => sum + size, 0);
for (const [name, size] of sizes) console.log(`${String(size).padStart(8)} ${name}`);
console.log(`${String(page).padStart(8)} bytes compressed, without the editor and docs.html`);
if (page > MAX_GZIP_BYTES) {
  console.error(`error: more than ${MAX_GZIP_BYTES} bytes`);
  process.exit(1);
}

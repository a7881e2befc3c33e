/**
 * `npm run lint`: installs the pinned tools if needed, lints the page, checks its layers.
 *
 * Invariant: fails if any part fails.
 */

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import "./install.mjs";

const tools = import.meta.dirname;
const web = join(tools, "..");

function run(what, args, cwd) {
  const done = spawnSync(process.execPath, args, { cwd, stdio: "inherit" });
  if (done.status !== 0) {
    console.error(`${what} failed`);
    process.exitCode = 1;
  }
}

run(
  "biome",
  [
    join(tools, "node_modules", "@biomejs", "biome", "bin", "biome"),
    "check",
    "--error-on-warnings",
  ],
  web,
);
run("the layer check", [join(tools, "check_layers.mjs")], web);

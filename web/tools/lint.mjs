/**
 * `npm run lint`: installs the pinned linter if needed, lints the page, checks its layers.
 *
 * Invariant: fails if any part fails; installs nothing when what is there is what the lock names.
 */

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const tools = import.meta.dirname;
const web = join(tools, "..");
const lock = readFileSync(join(tools, "package-lock.json"), "utf8");
const stamp = join(tools, "node_modules", ".nodescope-stamp");

function run(what, args, cwd) {
  const done = spawnSync(process.execPath, args, { cwd, stdio: "inherit" });
  if (done.status !== 0) {
    console.error(`${what} failed`);
    process.exitCode = 1;
  }
}

if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== lock) {
  // npm tells its scripts where it is; the `npm` beside a wheel's Node does not run.
  const npm = process.env.npm_execpath;
  if (npm === undefined)
    throw new Error("run this as `npm run lint`, or `python web/build.py lint`");
  run("installing the linter", [npm, "ci", "--no-audit", "--no-fund"], tools);
  writeFileSync(stamp, lock);
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

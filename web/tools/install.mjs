/**
 * `npm run tools`: installs the pinned tools that check the page.
 *
 * Invariant: installs nothing if the installed tools are those of the lock file.
 */

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const tools = import.meta.dirname;
const lock = readFileSync(join(tools, "package-lock.json"), "utf8");
const stamp = join(tools, "node_modules", ".nodescope-stamp");

if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== lock) {
  // npm tells its scripts its own path; the `npm` beside the Node of the wheel does not run.
  const npm = process.env.npm_execpath;
  if (npm === undefined)
    throw new Error("run this as `npm run tools`, or `python web/build.py tools`");
  const args = [npm, "ci", "--no-audit", "--no-fund"];
  const done = spawnSync(process.execPath, args, { cwd: tools, stdio: "inherit" });
  if (done.status !== 0) throw new Error("installing the tools failed");
  writeFileSync(stamp, lock);
}

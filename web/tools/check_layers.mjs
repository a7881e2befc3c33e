/**
 * Checks that the page's layers import downwards only, and that views do not import each other.
 *
 * base <- wire <- store <- layout <- render <- widgets <- views <- app. A view is a file in
 * src/views, or a folder there, whose files may import one another.
 *
 * Invariant: every import of the source is checked; a file outside the layers is an error.
 */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

const LAYERS = ["base", "wire", "store", "layout", "render", "widgets", "views", "app"];
// The export bundle has no page: layout and render must not import what needs one.
const NO_STORE = new Set(["layout", "render"]);
const SOURCE = resolve(import.meta.dirname, "..", "src");
const IMPORT =
  /(?:import|export)\s[^"';]*?from\s*"([^"]+)"|import\s*\(?\s*"([^"]+)"|new URL\(\s*"([^"]+)"/g;

function files(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
}

function place(path) {
  const parts = relative(SOURCE, path).split(sep);
  return { layer: parts[0], view: parts[0] === "views" ? parts[1].replace(/\.tsx?$/, "") : "" };
}

const faults = [];
let imports = 0;
for (const file of files(SOURCE)) {
  const from = place(file);
  const name = relative(SOURCE, file);
  if (!LAYERS.includes(from.layer)) faults.push(`${name}: not in a layer (${LAYERS.join(", ")})`);
  for (const match of readFileSync(file, "utf8").matchAll(IMPORT)) {
    const target = match[1] ?? match[2] ?? match[3];
    const path = target.startsWith("@/")
      ? join(SOURCE, target.slice(2))
      : target.startsWith(".")
        ? resolve(dirname(file), target)
        : undefined;
    if (path === undefined || relative(SOURCE, path).startsWith("..")) continue;
    imports += 1;
    const to = place(path);
    if (LAYERS.indexOf(to.layer) > LAYERS.indexOf(from.layer)) {
      faults.push(`${name}: ${from.layer} may not import ${to.layer} (${target})`);
    }
    if (to.layer === "store" && NO_STORE.has(from.layer)) {
      faults.push(`${name}: ${from.layer} works without the page's store (${target})`);
    }
    if (from.layer === "views" && to.layer === "views" && from.view !== to.view) {
      faults.push(`${name}: views do not import each other (${target})`);
    }
  }
}
if (imports === 0) faults.push("no imports found: this check looks in the wrong place");
for (const fault of faults) console.error(fault);
console.log(`layers: ${imports} imports, ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

/**
 * The content of the page's address: run, selection, open scopes, moment, camera, colouring, tabs.
 *
 * Invariant: reading a written address gives the same state; invalid parts are ignored, and no part
 * is ever shown unescaped or executed.
 */

/** The selection. Scopes are identified by their path. */
export type Item =
  | { readonly kind: "node"; readonly id: number }
  | { readonly kind: "scope"; readonly path: string };

/** Where the camera looks: the centre of the view, as an offset from an item's corner. */
export interface Viewpoint {
  readonly item: Item;
  readonly dx: number;
  readonly dy: number;
  readonly zoom: number;
}

export interface PageAddress {
  readonly run: string | undefined;
  readonly selection: Item | undefined;
  readonly open: readonly string[] | undefined;
  /** A moment in the past; undefined = live. */
  readonly seq: number | undefined;
  readonly tab: string | undefined;
  /** Whether a step's changes are shown. */
  readonly changes: boolean;
  /** Where the camera looks, if the user has moved it. */
  readonly at: Viewpoint | undefined;
  /** What the graph is coloured by; undefined for the default. */
  readonly colour: string | undefined;
  /** Whether control edges are drawn. */
  readonly control: boolean;
}

const MAX_OPEN = 200;

export function writeAddress(address: PageAddress): string {
  const parts = new URLSearchParams();
  if (address.run !== undefined) parts.set("run", address.run);
  if (address.selection?.kind === "node") parts.set("node", String(address.selection.id));
  if (address.selection?.kind === "scope") parts.set("scope", address.selection.path);
  if (address.open !== undefined) {
    // A longer list would bloat the address: without it, the page opens as for the first time.
    if (address.open.length <= MAX_OPEN) parts.set("open", address.open.map(escapePath).join(","));
  }
  if (address.seq !== undefined) parts.set("seq", String(address.seq));
  if (address.tab !== undefined) parts.set("tab", address.tab);
  if (address.changes) parts.set("changes", "1");
  if (address.colour !== undefined) parts.set("colour", address.colour);
  if (address.control) parts.set("control", "1");
  if (address.at !== undefined) parts.set("at", writeViewpoint(address.at));
  return parts.toString();
}

export function readAddress(hash: string): PageAddress {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const run = parts.get("run") ?? undefined;
  const node = whole(parts.get("node"));
  const scope = parts.get("scope");
  const open = parts.get("open");
  return {
    run: run !== undefined && /^[0-9a-f]{16}$/.test(run) ? run : undefined,
    selection:
      node !== undefined
        ? { kind: "node", id: node }
        : scope
          ? { kind: "scope", path: scope }
          : undefined,
    open: open === null ? undefined : open === "" ? [] : open.split(",").map(unescapePath),
    seq: whole(parts.get("seq")),
    tab: parts.get("tab") ?? undefined,
    changes: parts.get("changes") === "1",
    control: parts.get("control") === "1",
    at: readViewpoint(parts.get("at") ?? ""),
    colour: parts.get("colour") ?? undefined,
  };
}

function whole(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function escapePath(path: string): string {
  return path.replaceAll("%", "%25").replaceAll(",", "%2C");
}

function unescapePath(text: string): string {
  return text.replaceAll("%2C", ",").replaceAll("%25", "%");
}

/** `0.85,120,-30,n12`: zoom, offset in the graph, node by id (`n`) or scope by path (`s`). */
function writeViewpoint({ item, dx, dy, zoom }: Viewpoint): string {
  const named = item.kind === "node" ? `n${item.id}` : `s${item.path}`;
  return `${Number(zoom.toPrecision(3))},${Math.round(dx)},${Math.round(dy)},${named}`;
}

function readViewpoint(text: string): Viewpoint | undefined {
  const [, zoom, dx, dy, kind, name = ""] =
    /^(\d{0,4}(?:\.\d{1,6})?),(-?\d{1,8}),(-?\d{1,8}),([ns])(.+)$/s.exec(text) ?? [];
  const id = whole(name);
  if (!(Number(zoom) > 0) || (kind === "n" && id === undefined)) return undefined;
  const item: Item = kind === "n" ? { kind: "node", id: id ?? 0 } : { kind: "scope", path: name };
  return { item, dx: Number(dx), dy: Number(dy), zoom: Number(zoom) };
}

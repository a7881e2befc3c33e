/**
 * Which scopes are open in the first picture: as many as stay readable in the window.
 *
 * Invariant: scopes open breadth first, larger ones first: the forward pass, then the backward one,
 * then the optimizer. A stack shows one scope, unless there is room for all. Open forward scopes
 * stay open if the picture is readable with them and a fresh choice shows no more. The same graph
 * and window give the same picture on any machine.
 */

import { composeScene } from "@/layout/compose";
import {
  COLUMN_BACKWARD,
  COLUMN_FORWARD,
  COLUMN_OPTIMIZER,
  type Group,
  type Hierarchy,
} from "@/layout/hierarchy";
import type { NestedLayout } from "@/layout/nested";
import { BOX_SCOPE } from "@/layout/types";

/** The canvas, in px of the screen. */
export interface Window {
  readonly width: number;
  readonly height: number;
}

/** The smallest readable zoom: names of 12 px are 9 px on the screen. */
const READABLE = 0.75;
const MARGIN = 20;
/** Scopes with more boxes of their own are left for the user to open. */
const MOST_BOXES = 300;
/** Larger stacks show one scope at a time, even if there is room for more. */
const MOST_SPREAD = 6;
/**
 * Work limit for trial layouts, in boxes, edges and points laid out or placed: about a quarter of a
 * second. A limit in ms would make the picture depend on the load of the machine.
 */
const MOST_WORK = 60_000;
/** Walking this many groups takes about as long as placing one box. */
const GROUPS_PER_BOX = 128;
/** Time limit, for a machine that is too slow even for `MOST_WORK`. */
const BRAKE_MS = 4000;
/** The scope of parameter initialisation before the first step, which is not part of the model. */
const BEFORE_STEPS = "initialisation";
/** A picture with fewer boxes says little: shorter columns may leave room for more. */
const FEW_BOXES = 12;
/** Column heights to try, in this order, as shares of a taller column's height. */
const SHORTER = [2 / 3, 1 / 2, 1 / 3];
/** More columns are harder to follow, so they must raise the zoom by more than this. */
const PAYS = 0.1;
/** Zooms closer than this count as equal: a picture of 97 % is shown at 100 %. */
const ALIKE = 0.03;
/** A picture with less than this share of the window's aspect ratio gets shorter columns. */
const NARROW = 0.4;

/**
 * Adds to the open forward scopes, or starts over from `kept` if they are unreadable or if starting
 * over opens more. Scopes in `kept` always stay open. Also sets the layout's column height: that of
 * the window, or a part of it where shorter columns show more or fill the window better.
 *
 * Args:
 *   onlyMore: Change nothing unless more of the forward pass opens.
 */
export function unfold(
  layout: NestedLayout,
  open: ReadonlySet<string>,
  kept: ReadonlySet<string>,
  window: Window,
  onlyMore = false,
): ReadonlySet<string> {
  const before = layout.columnHeight;
  const trial = new Trial(layout, window);
  const { hierarchy } = layout;
  const full = (window.height - 2 * MARGIN) / READABLE;
  layout.setColumn(full);
  // Open backward scopes are not carried over: they would force the forward pass into one column.
  const forward = new Set([...kept, ...[...open].filter((path) => isForward(path, hierarchy))]);
  let best = { column: full, paths: opened(trial, forward, kept) };
  let shown = trial.look(best.paths);
  const use = (column: number, paths: ReadonlySet<string>, look: Look): void => {
    best = { column, paths };
    shown = look;
  };
  // After the graph has grown, the scopes that were open may be the smaller part of it.
  if (forward.size > kept.size && !trial.spent()) {
    const paths = opened(trial, kept, kept);
    const look = trial.look(paths);
    const more = opsWithin(paths, hierarchy) > opsWithin(best.paths, hierarchy);
    if (more && look.zoom >= Math.min(shown.zoom, READABLE)) use(full, paths, look);
  }
  for (const share of SHORTER) {
    if (trial.spent() || shown.boxes >= FEW_BOXES || hierarchy.groups.length === 1) break;
    layout.setColumn(full * share);
    const paths = opened(trial, forward, kept);
    const look = trial.look(paths);
    if (look.boxes > shown.boxes && look.zoom >= READABLE) use(full * share, paths, look);
  }
  const ratio = window.width / window.height;
  for (const share of SHORTER) {
    if (trial.spent() || shown.ratio >= NARROW * ratio) break;
    layout.setColumn(best.column * share);
    const look = trial.look(best.paths);
    const larger = Math.min(look.zoom, 1) - Math.min(shown.zoom, 1);
    const wider = look.ratio > shown.ratio && look.ratio <= ratio;
    if (larger > PAYS || (Math.abs(larger) < ALIKE && wider)) {
      use(best.column * share, best.paths, look);
    }
  }
  const stays = onlyMore && opsWithin(best.paths, hierarchy) <= opsWithin(open, hierarchy);
  layout.setColumn(stays ? before : best.column);
  return stays ? open : best.paths;
}

interface Look {
  /** The zoom at which the whole picture fits into the window. */
  readonly zoom: number;
  /** Width divided by height. */
  readonly ratio: number;
  /** The number of boxes other than open scopes. */
  readonly boxes: number;
}

/** Composes trial pictures and counts the work that they cost. */
class Trial {
  private readonly end = performance.now() + BRAKE_MS;
  private readonly before: number;
  private placed = 0;

  constructor(
    readonly layout: NestedLayout,
    private readonly window: Window,
  ) {
    this.before = layout.work;
  }

  spent(): boolean {
    const work = this.placed + this.layout.work - this.before;
    return work > MOST_WORK || performance.now() > this.end;
  }

  look(paths: ReadonlySet<string>): Look {
    const scene = composeScene(this.layout, paths, 0);
    const { left, right, top, bottom, boxes, edges, points } = scene;
    const groups = this.layout.hierarchy.groups.length;
    this.placed += boxes + edges + points.length / 2 + groups / GROUPS_PER_BOX;
    const width = Math.max(right - left, 1);
    const height = Math.max(bottom - top, 1);
    let within = 0;
    for (const kind of scene.kind) if (kind !== BOX_SCOPE) within++;
    const zoom = Math.min(
      (this.window.width - 2 * MARGIN) / width,
      (this.window.height - 2 * MARGIN) / height,
    );
    return { zoom, ratio: width / height, boxes: within };
  }

  zoomOf(paths: ReadonlySet<string>): number {
    return this.look(paths).zoom;
  }
}

/** The scopes that can be open with the layout's current column height. */
function opened(
  trial: Trial,
  forward: ReadonlySet<string>,
  kept: ReadonlySet<string>,
): ReadonlySet<string> {
  const { hierarchy } = trial.layout;
  let best: ReadonlySet<string> = trial.zoomOf(forward) >= READABLE ? forward : kept;
  // If even the folded picture is too small, opening a scope must not make it smaller.
  const least = Math.min(READABLE, trial.zoomOf(best));
  const all = children(hierarchy, hierarchy.groups[0]!);
  for (const column of [COLUMN_FORWARD, COLUMN_BACKWARD, COLUMN_OPTIMIZER]) {
    // Scopes of one box show little more when they are open, so they come last.
    const single: string[] = [];
    let level = all.filter((group) => group.column === column);
    while (level.length > 0) {
      const next: Group[] = [];
      for (const group of level) {
        const { path, nodes, groups } = shownOf(hierarchy, group, best);
        if (!best.has(path)) {
          if (groups.length === 0 && nodes.length < 2) {
            single.push(path);
            continue;
          }
          // An optimizer with one child (a module or a stack of modules) shows no more when open.
          if (column === COLUMN_OPTIMIZER && groups.length + nodes.length < 2) continue;
          if (trial.spent()) return best;
          const more = new Set(best).add(path);
          if (nodes.length + groups.length > MOST_BOXES || trial.zoomOf(more) < least) continue;
          best = more;
        }
        next.push(...children(hierarchy, hierarchy.groups[hierarchy.groupAt.get(path)!]!));
      }
      // Updates are all alike, so one box per module is enough.
      level = column === COLUMN_OPTIMIZER ? [] : next;
    }
    for (const path of single) {
      if (trial.spent()) return best;
      const more = new Set(best).add(path);
      if (trial.zoomOf(more) >= least) best = more;
    }
  }
  // Small stacks show all of their scopes if there is room.
  for (const { stack } of hierarchy.groups) {
    if (stack === undefined || stack.members.length > MOST_SPREAD) continue;
    if (!stack.members.some((path) => best.has(path))) continue;
    if (trial.spent()) return best;
    const more = new Set(best).add(stack.path);
    if (trial.zoomOf(more) >= least) best = more;
  }
  return best;
}

/** The scope that opens for a group: for a stack, its open scope or else its first. */
function shownOf(hierarchy: Hierarchy, group: Group, open: ReadonlySet<string>): Group {
  if (group.stack === undefined) return group;
  const { members } = group.stack;
  const path = members.find((member) => open.has(member)) ?? group.stack.first;
  return hierarchy.groups[hierarchy.groupAt.get(path)!]!;
}

/** Number of operations in open forward scopes; one in several open scopes counts once for each. */
function opsWithin(open: ReadonlySet<string>, hierarchy: Hierarchy): number {
  let ops = 0;
  for (const path of open) {
    const group = hierarchy.groups[hierarchy.groupAt.get(path) ?? -1];
    if (group?.column === COLUMN_FORWARD) ops += group.ops;
  }
  return ops;
}

function isForward(path: string, hierarchy: Hierarchy): boolean {
  const group = hierarchy.groups[hierarchy.groupAt.get(path) ?? 0]!;
  return group.column === COLUMN_FORWARD;
}

function children(hierarchy: Hierarchy, group: Group): Group[] {
  return group.groups
    .map((index) => hierarchy.groups[index]!)
    .filter(({ path }) => path !== BEFORE_STEPS)
    .sort((a, b) => b.ops - a.ops);
}

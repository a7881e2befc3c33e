/**
 * Which scopes are open in the first picture: as many as stay readable in the window.
 *
 * Invariant: the forward pass before the backward one, the optimizer last, breadth first, larger scopes first; of a stack one
 * scope, unless there is room for all; what is open by then of the forward pass stays open if it can
 * still be read, and choosing anew shows no more. The same graph and window give the same picture on
 * any machine.
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

/** Names of 12 px are 9 px on the screen then. */
const READABLE = 0.75;
const MARGIN = 20;
/** Scopes with more boxes of their own are opened by hand. */
const MOST_BOXES = 300;
/** Larger stacks are shown one scope at a time, whatever the room. */
const MOST_SPREAD = 6;
/**
 * What trying may cost, in boxes, lines and points laid out or placed, which takes a quarter of a
 * second or so. Not in ms: the picture would depend on what else the machine does.
 */
const MOST_WORK = 60_000;
/** So many groups are gone through in the time of one box. */
const GROUPS_PER_BOX = 128;
/** On a machine too slow even for that. */
const BRAKE_MS = 4000;
/** Parameter initialisation before the first step, which is not part of the model. */
const BEFORE_STEPS = "initialisation";
/** A picture with fewer boxes says little: shorter columns may leave room for more. */
const FEW_BOXES = 12;
/** Heights of columns, as shares of the window's, tried in this order. */
const SHORTER = [2 / 3, 1 / 2, 1 / 3];
/** More columns are harder to follow: so much larger are their boxes at least. */
const PAYS = 0.1;
/** Sizes so little apart are alike: a picture of 97 % is shown at 100 %. */
const ALIKE = 0.03;
/** Narrower than the window by this factor, a picture is cut into shorter columns. */
const NARROW = 0.4;

/**
 * Adds to what is open of the forward pass, or begins anew if that cannot be read or opens more; `kept` stay open
 * in any case. Sets the height of the layout's columns, too: that of the window, or a part of it where
 * shorter columns show more or fill the window better.
 *
 * Args:
 *   onlyMore: Whether all stays as it is, unless more of the forward pass is open then.
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
  // With the backward pass open, the forward one lies level with it, and in one column.
  const forward = new Set([...kept, ...[...open].filter((path) => isForward(path, hierarchy))]);
  let best = { column: full, paths: opened(trial, forward, kept) };
  let shown = trial.look(best.paths);
  const use = (column: number, paths: ReadonlySet<string>, look: Look): void => {
    best = { column, paths };
    shown = look;
  };
  // Of a graph that has grown, what was open may be the lesser part.
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
  /** At which all of it fits into the window. */
  readonly zoom: number;
  /** Width by height. */
  readonly ratio: number;
  /** Without those that hold others. */
  readonly boxes: number;
}

/** Composes pictures, within what trying may cost. */
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

/** What can be open in columns of the layout's present height. */
function opened(
  trial: Trial,
  forward: ReadonlySet<string>,
  kept: ReadonlySet<string>,
): ReadonlySet<string> {
  const { hierarchy } = trial.layout;
  let best: ReadonlySet<string> = trial.zoomOf(forward) >= READABLE ? forward : kept;
  // Where not even the folded picture is large enough, what is opened makes it no smaller.
  const least = Math.min(READABLE, trial.zoomOf(best));
  const all = children(hierarchy, hierarchy.groups[0]!);
  for (const column of [COLUMN_FORWARD, COLUMN_BACKWARD, COLUMN_OPTIMIZER]) {
    // Scopes of one box say nearly as much when they are folded.
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
          // Updates of one module, or of modules that are all alike, say no more when they are open.
          if (column === COLUMN_OPTIMIZER && groups.length + nodes.length < 2) continue;
          if (trial.spent()) return best;
          const more = new Set(best).add(path);
          if (nodes.length + groups.length > MOST_BOXES || trial.zoomOf(more) < least) continue;
          best = more;
        }
        next.push(...children(hierarchy, hierarchy.groups[hierarchy.groupAt.get(path)!]!));
      }
      // Updates are all alike: one box per module says what there is.
      level = column === COLUMN_OPTIMIZER ? [] : next;
    }
    for (const path of single) {
      if (trial.spent()) return best;
      const more = new Set(best).add(path);
      if (trial.zoomOf(more) >= least) best = more;
    }
  }
  // Small stacks of which there is room for all.
  for (const { stack } of hierarchy.groups) {
    if (stack === undefined || stack.members.length > MOST_SPREAD) continue;
    if (!stack.members.some((path) => best.has(path))) continue;
    if (trial.spent()) return best;
    const more = new Set(best).add(stack.path);
    if (trial.zoomOf(more) >= least) best = more;
  }
  return best;
}

/** The scope that is opened for a group: of a stack, the one that is open, or the first. */
function shownOf(hierarchy: Hierarchy, group: Group, open: ReadonlySet<string>): Group {
  if (group.stack === undefined) return group;
  const { members } = group.stack;
  const path = members.find((member) => open.has(member)) ?? group.stack.first;
  return hierarchy.groups[hierarchy.groupAt.get(path)!]!;
}

/** How many operations the open scopes of the forward pass hold; those within several count for each. */
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

/**
 * Which scopes are open in the first picture: as many as stay readable in the window.
 *
 * Invariant: the forward pass before the backward one, the optimizer last, breadth first, larger scopes first; of a stack one
 * scope, unless there is room for all; what is open by then of the forward pass stays open if it can
 * still be read. The same graph and window give the same picture on any machine.
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

/** The canvas, in px of the screen. */
export interface Window {
  readonly width: number;
  readonly height: number;
}

/** Names of 12 px are 9 px on the screen then. */
const READABLE = 0.75;
const MARGIN = 28;
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

/**
 * Adds to what is open of the forward pass, or begins anew if that cannot be read; `kept` stay open
 * in any case.
 */
export function unfold(
  layout: NestedLayout,
  open: ReadonlySet<string>,
  kept: ReadonlySet<string>,
  window: Window,
): ReadonlySet<string> {
  const end = performance.now() + BRAKE_MS;
  const before = layout.work;
  let placed = 0;
  const spent = (): boolean => placed + layout.work - before > MOST_WORK || performance.now() > end;
  const zoomOf = (paths: ReadonlySet<string>): number => {
    const { left, right, top, bottom, boxes, edges, points } = composeScene(layout, paths, 0);
    placed += boxes + edges + points.length / 2 + layout.hierarchy.groups.length / GROUPS_PER_BOX;
    return Math.min(
      (window.width - 2 * MARGIN) / Math.max(right - left, 1),
      (window.height - 2 * MARGIN) / Math.max(bottom - top, 1),
    );
  };
  const { hierarchy } = layout;
  layout.setColumn((window.height - 2 * MARGIN) / READABLE);
  // With the backward pass open, the forward one lies level with it, and in one column.
  const forward = new Set([...kept, ...[...open].filter((path) => isForward(path, hierarchy))]);
  let best: ReadonlySet<string> = zoomOf(forward) >= READABLE ? forward : kept;
  // Where not even the folded picture is large enough, what is opened makes it no smaller.
  const least = Math.min(READABLE, zoomOf(best));
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
          if (spent()) return best;
          const more = new Set(best).add(path);
          if (nodes.length + groups.length > MOST_BOXES || zoomOf(more) < least) continue;
          best = more;
        }
        next.push(...children(hierarchy, hierarchy.groups[hierarchy.groupAt.get(path)!]!));
      }
      // Updates are all alike: one box per module says what there is.
      level = column === COLUMN_OPTIMIZER ? [] : next;
    }
    for (const path of single) {
      if (spent()) return best;
      const more = new Set(best).add(path);
      if (zoomOf(more) >= least) best = more;
    }
  }
  // Small stacks of which there is room for all.
  for (const { stack } of hierarchy.groups) {
    if (stack === undefined || stack.members.length > MOST_SPREAD) continue;
    if (!stack.members.some((path) => best.has(path))) continue;
    if (spent()) return best;
    const more = new Set(best).add(stack.path);
    if (zoomOf(more) >= least) best = more;
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

/**
 * The page's commands: one table, from which palette, keyboard and key sheet are made.
 *
 * Invariant: each key is bound once.
 */

import { exportCommands } from "@/app/exports";
import { movingCommands } from "@/app/moving_commands";
import type { PageCommand } from "@/app/page_command";
import { tabCommands } from "@/app/tab_commands";
import type { GraphView } from "@/render/scene/types";
import { type Abilities, abilities } from "@/store/debugger/abilities";
import { branchable, editable } from "@/store/debugger/editing";
import { shownMember, stackState } from "@/store/debugger/stacks";
import type { Watches } from "@/store/debugger/watches";
import type { StepChanges } from "@/store/history/changes";
import type { Moments } from "@/store/history/value_diff";
import type { Why } from "@/store/history/why";
import type { Overlays } from "@/store/page/overlays";
import type { Preferences } from "@/store/page/preferences";
import type { Searching } from "@/store/page/searching";
import { spreadStack, stackAt, turnStack } from "@/store/page/stack_turns";
import type { Store } from "@/store/page/store";
import type { Tracing } from "@/store/page/tracing";
import type { Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import type { Views } from "@/store/page/views";
import { offers } from "@/store/run/capabilities";
import { flagsOf } from "@/store/run/counts";
import { hasControlEdges, hasCourse, seenStep } from "@/store/run/run_model";
import { HAS_INF, HAS_NAN, type Command as WireCommand } from "@/wire/types.gen";

export interface CommandScope {
  readonly store: Store;
  readonly ui: Ui;
  readonly preferences: Preferences;
  readonly why: Why;
  readonly watches: Watches;
  readonly moments: Moments;
  readonly searching: Searching;
  readonly tracing: Tracing;
  readonly views: Views;
  readonly overlays: Overlays;
  view(): GraphView | undefined;
  /** The changes of the step shown; undefined if there are none. */
  changes(): StepChanges | undefined;
  go(item: Item): void;
  toggleBreakpoint(node: number): void;
  toggleScopeBreakpoint(path: string): void;
  exportSvg(what: "screen" | "whole"): Promise<void>;
  showRuns(): void;
  /** Leaves the run that is being opened. */
  stopOpening(): void;
  focusSearch(): void;
  /** Shows the pane of breakpoints. */
  showBreakpoints(): void;
  /** Moves the focus into the pane of breakpoints. */
  focusBreakpoints(): void;
}

const ALWAYS = (): boolean => true;

export function pageCommands(page: CommandScope): readonly PageCommand[] {
  const { store, ui, preferences } = page;
  const stopped = (): boolean => store.link().kind === "open" && store.stop() !== undefined;
  const can = (): Abilities => abilities(store);
  const selected = (): number | undefined => {
    const item = store.selection();
    return item?.kind === "node" ? item.id : undefined;
  };
  /** The node in the inspector, which may be pinned: the subject of queries and edits. */
  const subject = (): number | undefined => {
    const item = store.subject();
    return item?.kind === "node" ? item.id : undefined;
  };
  const subjectValue = (): number => store.model()?.graph.nodes[subject() ?? -1]?.outputs[0] ?? -1;
  const selectedName = (): string | undefined => store.model()?.graph.nodes[selected() ?? -1]?.name;
  const docked = (): boolean => hasCourse(store.model(), store.live);
  const here = (): boolean => store.link().kind === "open" && (store.model()?.seq ?? 0) > 0;
  /** Between two stops, as while a key is held down: no message is needed. */
  const moving = (): boolean =>
    store.model()?.info.state === "live" &&
    store.stop() === undefined &&
    store.cursor().kind === "live";
  /** Whether the last command to the program was a step, and the count of stops at that time. */
  let stepping = false;
  let steppedAt = -1;
  const send = (command: WireCommand) => () => {
    stepping = false;
    void store.control(command);
  };
  const walk = (title: string, keys: string, command: WireCommand): PageCommand => ({
    title,
    keys,
    group: "Debugger",
    enabled: () => can()[command.type === "continue" ? "continue" : "step"] === "",
    why: () => (moving() ? "" : can()[command.type === "continue" ? "continue" : "step"]),
    later: () =>
      command.type !== "continue" && stepping && (moving() || store.stops() === steppedAt),
    run: () => {
      stepping = command.type !== "continue" && store.cursor().kind === "live";
      steppedAt = store.stops();
      void store.walk(command).then((goes) => {
        stepping &&= goes;
      });
    },
  });
  const rewind = (title: string, keys: string, command: WireCommand): PageCommand => ({
    title,
    keys,
    group: "Debugger",
    enabled: () => can()[command.type === "continue" ? "reverse" : "back"] === "",
    why: () => (moving() ? "" : can()[command.type === "continue" ? "reverse" : "back"]),
    run: () => void store.travel(command, true),
  });
  const selectedPath = (): string | undefined => {
    const item = store.selection();
    return item?.kind === "node" ? store.tree()?.scopeOf(item.id) : item?.path;
  };
  const turn = (title: string, keys: string, act: "previous" | "next"): PageCommand => ({
    title,
    keys,
    group: "Graph",
    enabled: () => stackAt(store, selectedPath()) !== undefined,
    run: () => {
      const stack = stackAt(store, selectedPath());
      if (stack === undefined) return;
      turnStack(store, stack, act);
      const item = store.selection();
      if (item !== undefined) page.view()?.reveal(item);
    },
  });
  const debug = (title: string, keys: string, what: "pause" | "detach"): PageCommand => ({
    title,
    keys,
    group: "Debugger",
    enabled: () => can()[what] === "",
    why: () => can()[what],
    run: send({ type: what }),
  });
  return [
    walk("Continue", "F5", { type: "continue" }),
    debug("Pause", "F6", "pause"),
    walk("Run to the next training step", "F8", { type: "next_step" }),
    walk("Step over this scope", "F10", { type: "step_over" }),
    walk("Step to the next node", "F11", { type: "step_node" }),
    walk("Step into the next scope", "Ctrl F11", { type: "step_in" }),
    walk("Step out of this scope", "⇧F11", { type: "step_out" }),
    rewind("Back to the previous node", "B", { type: "step_node" }),
    rewind("Step back over this scope", "⇧F9", { type: "step_over" }),
    rewind("Back to the previous training step", "⇧F8", { type: "next_step" }),
    rewind("Back to the last breakpoint", "R", { type: "continue" }),
    walk("Run to the backward node, or go back to the forward node", "⇧F10", { type: "step_twin" }),
    {
      title: "Edit the selected value: continue with it, or try a what-if",
      keys: "E",
      group: "Debugger",
      enabled: () =>
        subjectValue() >= 0 &&
        (editable(store, subjectValue()) || branchable(store, subjectValue())),
      run: () => {
        ui.setInspectorTab("value");
        ui.setEditing(!ui.editing());
      },
    },
    {
      title: "Why: explain the selected value",
      keys: "W",
      group: "Debugger",
      enabled: here,
      run: () => {
        if (subject() !== undefined) page.why.askSelected();
        else store.notify("info", "Select a node to have its value explained.");
      },
    },
    {
      title: "Mark this moment as A for comparison",
      keys: "M",
      group: "Debugger",
      enabled: here,
      run: () => page.moments.hold(),
    },
    {
      title: "Compare this moment with A, or with the previous execution",
      keys: "D",
      group: "Debugger",
      enabled: () => here() && subject() !== undefined,
      run: () => page.moments.show(),
    },
    {
      title: "Swap moments: go to A and mark this one",
      keys: "X",
      group: "Debugger",
      enabled: () => here() && page.moments.held() !== undefined,
      run: () => page.moments.swap(),
    },
    {
      title: "Show the what-if branches",
      keys: "T",
      group: "Debugger",
      enabled: () => here() && offers(store, "rerun"),
      run: () => void ui.setDockTab("branches"),
    },
    {
      title: "Show the watches",
      keys: "A",
      group: "Debugger",
      enabled: () => here(),
      run: () => void ui.setDockTab("watches"),
    },
    {
      title: "Add a watch: all rules, and those recommended for this program",
      keys: "",
      group: "Debugger",
      enabled: () => here(),
      run: () => {
        ui.setDockTab("watches");
        page.watches.setGallery(true);
      },
    },
    {
      title: "Run to the selected node",
      keys: "Ctrl F10",
      group: "Debugger",
      enabled: () => stopped() && selected() !== undefined,
      run: () => {
        const node = selectedName();
        if (node !== undefined) void store.control({ type: "run_to", node });
      },
    },
    {
      title: "Set or remove a breakpoint here",
      keys: "F9",
      group: "Debugger",
      enabled: () => store.breakable() && store.selection() !== undefined,
      run: () => {
        const item = store.selection();
        if (item?.kind === "node") page.toggleBreakpoint(item.id);
        else if (item !== undefined) page.toggleScopeBreakpoint(item.path);
      },
    },
    {
      title: "Add a breakpoint with a condition, hit count, log message or range of steps",
      keys: "Ctrl F9",
      group: "Debugger",
      enabled: () => store.breakable(),
      run: () => {
        page.showBreakpoints();
        if (ui.adding()) page.focusBreakpoints();
        else ui.setAdding(true);
      },
    },
    {
      title: "Show the breakpoints",
      keys: "K",
      group: "Debugger",
      enabled: docked,
      run: () => {
        page.showBreakpoints();
        page.focusBreakpoints();
      },
    },
    debug("Detach", "", "detach"),
    {
      title: "Fit the graph",
      keys: "F",
      group: "Graph",
      enabled: ALWAYS,
      run: () => page.view()?.fit(),
    },
    {
      title: "Go to the current node",
      keys: "C",
      group: "Graph",
      enabled: stopped,
      run: () => {
        const stop = store.stop();
        if (stop !== undefined && stop.node > 0) page.go({ kind: "node", id: stop.node });
      },
    },
    {
      title: "Go to the next NaN or Inf",
      keys: "N",
      group: "Graph",
      enabled: ALWAYS,
      run: () => nextProblem(page),
    },
    {
      title: "Show graph changes of this step",
      keys: "G",
      group: "Graph",
      enabled: () => page.changes() !== undefined || ui.showChanges(),
      run: () => void ui.setShowChanges(!ui.showChanges()),
    },
    {
      title: "Show or hide control edges",
      keys: "",
      group: "Graph",
      enabled: () => hasControlEdges(store.model()?.graph),
      run: () => void ui.setControlEdges(!ui.controlEdges()),
    },
    {
      title: "Show or hide the legend",
      keys: "H",
      group: "Graph",
      enabled: ALWAYS,
      run: () => void ui.setLegend(!ui.legend()),
    },
    {
      title: "Out to the enclosing scope",
      keys: "[",
      group: "Graph",
      enabled: () => store.selection() !== undefined,
      run: () => outward(page),
    },
    {
      title: "Into the selected scope",
      keys: "]",
      group: "Graph",
      enabled: () => store.selection()?.kind === "scope",
      run: () => inward(page),
    },
    turn("Show the next of the scopes that are alike", "}", "next"),
    turn("Show the one before of the scopes that are alike", "{", "previous"),
    {
      title: "Show all of the scopes that are alike, or again one",
      keys: "",
      group: "Graph",
      enabled: () => stackAt(store, selectedPath()) !== undefined,
      run: () => {
        const stack = stackAt(store, selectedPath());
        if (stack !== undefined) spreadStack(store, stack);
      },
    },
    ...movingCommands(page),
    {
      title: "Divide long stretches without scopes into sections, or no longer",
      keys: "",
      group: "Graph",
      enabled: ALWAYS,
      run: () => store.resection(),
    },
    {
      title: "Open all scopes",
      keys: "",
      group: "Graph",
      enabled: ALWAYS,
      run: () => store.setOpen(new Set([...(store.tree()?.scopes.keys() ?? [])].filter(Boolean))),
    },
    {
      title: "Fold all scopes",
      keys: "",
      group: "Graph",
      enabled: ALWAYS,
      run: () => store.setOpen(new Set()),
    },
    {
      title: "Search the outline",
      keys: "/",
      group: "Page",
      enabled: ALWAYS,
      run: () => page.focusSearch(),
    },
    {
      title: "Find a node or a command",
      keys: "Ctrl K",
      group: "Page",
      enabled: ALWAYS,
      run: () => void ui.setOverlay("palette"),
    },
    ...tabCommands(ui, docked),
    {
      title: "Back to live",
      keys: "L",
      group: "Page",
      enabled: () => store.cursor().kind === "past",
      run: () => store.backToLive(),
    },
    ...exportCommands(page),
    {
      title: "All runs and recordings",
      keys: "",
      group: "Page",
      enabled: ALWAYS,
      run: () => page.showRuns(),
    },
    {
      title: "Light or dark theme",
      keys: "",
      group: "Page",
      enabled: ALWAYS,
      run: () => preferences.setTheme(preferences.theme() === "dark" ? "light" : "dark"),
    },
    {
      title: "Show the keyboard shortcuts",
      keys: "?",
      group: "Page",
      enabled: ALWAYS,
      run: () => void ui.setOverlay(ui.overlay() === "keys" ? "none" : "keys"),
    },
  ];
}

function nextProblem({ store, go }: CommandScope): void {
  const nodes = store.model()?.graph.nodes ?? [];
  const selection = store.selection();
  const from = selection?.kind === "node" ? selection.id : 0;
  for (let i = 1; i <= nodes.length; i++) {
    const id = (from + i) % nodes.length;
    const flags = flagsOf(nodes[id], store.shown(), seenStep(store));
    if ((flags & (HAS_NAN | HAS_INF)) !== 0) {
      go({ kind: "node", id });
      return;
    }
  }
  store.notify("info", "No NaN or Inf at this moment.");
}

function outward({ store, go }: CommandScope): void {
  const item = store.selection();
  const path =
    item?.kind === "scope" ? item.path : (store.model()?.graph.nodes[item?.id ?? -1]?.name ?? "");
  const cut = path.lastIndexOf("/");
  if (cut > 0) go({ kind: "scope", path: path.slice(0, cut) });
}

function inward({ store, go }: CommandScope): void {
  const item = store.selection();
  if (item?.kind !== "scope") return;
  const stack = store.tree()?.repeats.byPath.get(item.path);
  const folded = stack === undefined || stackState(store.folds().open, stack) === "folded";
  if (folded && !store.isOpen(item.path)) store.toggleScope(item.path);
  const entry = store.tree()?.scopes.get(item.path);
  const shown = entry?.stack && shownMember(store.folds().open, entry.stack);
  const first = entry?.children.find(({ path }) => path === (shown ?? path));
  if (first === undefined) return;
  go(first.kind === "node" ? { kind: "node", id: first.id } : { kind: "scope", path: first.path });
}

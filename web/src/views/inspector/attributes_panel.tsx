/**
 * The attributes of an op, and facts about the node: where it ran, when it was first seen, memory.
 *
 * Invariant: shows the attributes of the execution at the moment shown; those that differ from the
 * first execution say so.
 */

import { type Accessor, createMemo, For, type JSX, Show } from "solid-js";
import { formatBytes, formatDuration } from "@/base/numbers";
import { printable } from "@/base/printable";
import { createQuery } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import type { Item } from "@/store/page/url";
import { attributeText } from "@/store/run/node_text";
import { placeWords } from "@/store/run/place";
import { seenStep, stepAt } from "@/store/run/run_model";
import { isLeaf } from "@/wire/roles";
import type { GetAttributes, GetMemory, Node } from "@/wire/types.gen";

/** Longer texts, such as a nested graph, get their own lines. */
const LONG = 24;
/** A name and its text that together are longer get a whole line, not half of one. */
const BROAD = 18;
const MOST_TEXT = 20_000;

/** The text made printable line by line, so that line breaks are kept. */
function shown(text: string): string {
  const kept = text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text;
  return kept
    .split("\n")
    .map((line) => printable(line, MOST_TEXT + 1))
    .join("\n");
}

function isLong(text: string): boolean {
  return text.length > LONG || text.includes("\n");
}

export function Attributes(props: {
  readonly node: Node;
  readonly store: Store;
  /** Changes when the node has run again. */
  readonly refresh: Accessor<unknown>;
  go(item: Item): void;
}): JSX.Element {
  /** Whether the node is a task: its attributes are those of an execution, such as its wait. */
  const isTask = () => props.node.role === "task";
  const answer = createQuery(
    props.store,
    "node_attributes",
    (): GetAttributes | undefined => {
      const run = props.store.runId();
      const none = Object.keys(props.node.attrs).length === 0;
      if (run === undefined || (none && !isTask())) return undefined;
      return { type: "get_attributes", run, node: props.node.id, seq: props.store.seq() };
    },
    props.refresh,
    (before, after) =>
      before.type === "get_attributes" &&
      after.type === "get_attributes" &&
      before.node === after.node,
  );
  const recorded = createMemo(() => {
    const now = answer();
    return now.kind === "ready" && now.value.node === props.node.id ? now.value : undefined;
  });
  const attributes = createMemo(() =>
    Object.entries(recorded()?.attrs ?? props.node.attrs).map(([name, value]) =>
      isTask() && name.endsWith("_s") && typeof value === "number"
        ? ([name.slice(0, -2), formatDuration(value * 1e9)] as const)
        : ([name, shown(attributeText(value, name))] as const),
    ),
  );
  const first = (name: string): string | undefined =>
    !isTask() && name in (recorded()?.changed ?? {})
      ? attributeText(recorded()?.changed[name] ?? "none", name)
      : undefined;
  /** Levels without values do not keep attributes of later executions either. */
  const only = () =>
    attributes().length > 0 && ["graph", "timing"].includes(props.store.model()?.info.level ?? "");
  const met = () => {
    const model = props.store.model();
    return stepAt(model?.steps ?? [], model?.graph.history.met[props.node.id] ?? 0)?.step;
  };
  /** Where the execution shown ran, if not on a thread of the program. */
  const ranIn = () => {
    props.refresh();
    const { worker, lane } = props.store.shown();
    const { id, dialect } = props.node;
    // The scope of a PyTorch worker already has the worker's number, which counts from 0.
    if (dialect === "torch" && (worker[id] ?? 0) > 0) return "";
    return placeWords({ worker: worker[id] ?? 0, queue: lane[id] ?? 0 });
  };
  const memory = createQuery(
    props.store,
    "node_memory",
    (): GetMemory | undefined => {
      const run = props.store.runId();
      if (run === undefined || isLeaf(props.node)) return undefined;
      return { type: "get_memory", run, node: props.node.id, step: seenStep(props.store) };
    },
    props.refresh,
    (before, after) =>
      before.type === "get_memory" && after.type === "get_memory" && before.node === after.node,
  );
  /** The memory that the step needs while the node runs, and the peak of the step. */
  const memoryRows = (): readonly (readonly [string, string])[] => {
    const now = memory();
    if (now.kind !== "ready" || now.value.node !== props.node.id || now.value.live === null) {
      return [];
    }
    return [
      ["live memory", formatBytes(now.value.live)],
      ["peak in step", formatBytes(now.value.peak)],
    ];
  };
  const rows = () => [
    ...attributes().filter(([, text]) => !isLong(text)),
    ...(met() === undefined ? [] : [["first seen", `step ${met()}`] as const]),
    ...(isTask() ? [] : [["phase", props.node.phase] as const]),
    ...(props.node.device === "" ? [] : [["device", props.node.device] as const]),
    ...(ranIn() === "" ? [] : [["ran in", ranIn()] as const]),
    ...memoryRows(),
    ["node", `#${props.node.id}`] as const,
  ];
  const forward = () => props.store.model()?.graph.nodes[props.node.forward ?? -1];
  return (
    <section class="sec">
      <div class="h">
        <span class="lab">Attributes</span>
        <span class="sp" />
        <span class="mi t3">{only() ? "from the first execution" : ""}</span>
      </div>
      <dl class="kv wide2">
        <For each={rows()}>
          {([name, text]) => (
            <div
              classList={{
                changed: first(name) !== undefined,
                broad: name.length + text.length > BROAD,
              }}
              data-testid={first(name) === undefined ? undefined : "attribute-changed"}
            >
              <dt>{name}</dt>
              <dd
                class="ell"
                title={first(name) === undefined ? text : `${text}; initially ${first(name)}`}
              >
                {text}
              </dd>
            </div>
          )}
        </For>
      </dl>
      <For each={attributes().filter(([, text]) => isLong(text))}>
        {([name, text]) => (
          <div class="long-attribute">
            <span class="t3 small">{name}</span>
            <pre data-testid="long-attribute" tabindex={0}>
              {text}
            </pre>
          </div>
        )}
      </For>
      <Show when={forward()}>
        {(of) => (
          <p class="t3 small">
            Gradient of{" "}
            <button
              type="button"
              class="link"
              onClick={() => props.go({ kind: "node", id: of().id })}
            >
              {of().name}
            </button>
          </p>
        )}
      </Show>
    </section>
  );
}

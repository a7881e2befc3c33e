/**
 * The start page's state: the server's last list, marked entries, and pending questions.
 *
 * Invariant: requested again while the page is shown, sooner while files have not been read yet.
 */

import { type Accessor, createEffect, createMemo, createSignal, onCleanup } from "solid-js";
import {
  type Group,
  groupOf,
  matches,
  type SortBy,
  type Sorting,
  sorted,
  type Which,
} from "@/store/page/recordings_list";
import { get, send, sendFile } from "@/wire/rest";
import { inWords } from "@/wire/socket";
import type { DeletedRecording, Entry, FunctionList, OpenedRun, Shelf } from "@/wire/types.gen";

const REFRESH_MS = 2500;
const SOON_MS = 120;

export const GROUPS: readonly Group[] = ["running", "here", "elsewhere"];

export interface ShelfState {
  readonly shelf: Accessor<Shelf | undefined>;
  readonly problem: Accessor<string>;
  readonly search: Accessor<string>;
  readonly which: Accessor<Which>;
  readonly sorting: Accessor<Sorting>;
  readonly marked: Accessor<ReadonlySet<string>>;
  /** The recordings to be deleted, until that is confirmed. */
  readonly doomed: Accessor<readonly Entry[]>;
  readonly focused: Accessor<string | undefined>;
  readonly busy: Accessor<boolean>;
  readonly now: Accessor<number>;
  /** The rows shown, by group. */
  readonly rowsOf: (group: Group) => readonly Entry[];
  /** All rows, in display order. */
  readonly rows: Accessor<readonly Entry[]>;
  setSearch(text: string): void;
  setWhich(which: Which): void;
  sortBy(by: SortBy): void;
  mark(id: string): void;
  clear(): void;
  focus(id: string | undefined): void;
  /** Opens a recording; returns the run's id. */
  open(entry: Entry): Promise<string | undefined>;
  /** Opens a file that the user chose or dropped; returns the run's id. */
  take(file: File): Promise<string | undefined>;
  /** Opens the two marked recordings; returns the eager run's id, then the compiled one's. */
  compare(): Promise<readonly [string, string] | undefined>;
  askToDelete(): void;
  keep(): void;
  deleteThem(): Promise<void>;
}

/** `stir` changes when the server's runs do. */
export function createShelf(stir: Accessor<unknown>): ShelfState {
  const [shelf, setShelf] = createSignal<Shelf>();
  const [problem, setProblem] = createSignal("");
  /** Why the list could not be requested. */
  const [silence, setSilence] = createSignal("");
  const [search, setSearch] = createSignal("");
  const [which, setWhich] = createSignal<Which>("all");
  const [sorting, setSorting] = createSignal<Sorting>({ by: "started", up: false });
  const [marked, setMarked] = createSignal<ReadonlySet<string>>(new Set());
  const [doomed, setDoomed] = createSignal<readonly Entry[]>([]);
  const [focused, setFocused] = createSignal<string>();
  const [busy, setBusy] = createSignal(false);
  const [now, setNow] = createSignal(Date.now());
  let timer: number | undefined;
  let asking = false;
  let disposed = false;

  const refresh = async (): Promise<void> => {
    window.clearTimeout(timer);
    if (asking) return;
    asking = true;
    try {
      const answer = await get<Shelf>("library");
      if (disposed) return;
      setSilence("");
      setShelf(answer);
      setNow(Date.now());
    } catch (error) {
      if (!disposed) setSilence(inWords(error));
    } finally {
      asking = false;
    }
    const pending = shelf()?.pending ?? 0;
    const wait = pending > 0 ? SOON_MS : REFRESH_MS;
    if (!disposed) timer = window.setTimeout(() => void refresh(), wait);
  };
  createEffect(() => {
    stir();
    void refresh();
  });
  onCleanup(() => {
    disposed = true;
    window.clearTimeout(timer);
  });

  const groups = createMemo(() => {
    const entries = (shelf()?.entries ?? []).filter((entry) => matches(entry, which(), search()));
    const inGroup = (group: Group): readonly Entry[] =>
      sorted(
        entries.filter((entry) => groupOf(entry) === group),
        sorting(),
      );
    return new Map(GROUPS.map((group) => [group, inGroup(group)]));
  });
  const rowsOf = (group: Group): readonly Entry[] => groups().get(group) ?? [];
  const rows = createMemo(() => GROUPS.flatMap(rowsOf));
  const chosen = (): readonly Entry[] => {
    const all = (shelf()?.entries ?? []).filter((entry) => marked().has(entry.id));
    return all.length > 0 ? all : rows().filter((entry) => entry.id === focused());
  };
  const doing = async <T>(task: () => Promise<T>): Promise<T | undefined> => {
    setBusy(true);
    setProblem("");
    try {
      return await task();
    } catch (error) {
      setProblem(inWords(error));
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  const opened = async (entry: Entry): Promise<string> =>
    entry.run || (await send<OpenedRun>("POST", `library/${entry.id}/open`)).run.id;

  return {
    shelf,
    problem: () => problem() || silence(),
    search,
    which,
    sorting,
    marked,
    doomed,
    focused,
    busy,
    now,
    rowsOf,
    rows,
    setSearch,
    setWhich,
    sortBy: (by) => setSorting({ by, up: sorting().by === by ? !sorting().up : false }),
    mark: (id) => {
      const next = new Set(marked());
      if (!next.delete(id)) next.add(id);
      setMarked(next);
      setDoomed([]);
    },
    clear: () => {
      setMarked(new Set<string>());
      setDoomed([]);
      setProblem("");
    },
    focus: setFocused,
    open: (entry) => doing(() => opened(entry)),
    take: (file) =>
      doing(async () => (await sendFile<OpenedRun>("library", file.name, file)).run.id),
    compare: () =>
      doing(async () => {
        const [left, right] = chosen();
        if (left === undefined || right === undefined) return undefined;
        const ids = [await opened(left), await opened(right)] as const;
        const compiled = await Promise.all(
          ids.map((id) => get<FunctionList>(`runs/${id}/functions`)),
        );
        const [first, second] = compiled.map((recording) => recording.functions.length > 0);
        if (!first && !second) {
          throw new Error(
            "Neither run has a compiled function, so there is nothing to compare side by side. " +
              "nodescope compare train.py runs a program both ways.",
          );
        }
        return first && !second ? ([ids[1], ids[0]] as const) : ids;
      }),
    askToDelete: () => {
      const own = chosen().filter((recording) => recording.ours);
      if (own.length > 0) setDoomed(own);
      else setProblem("Only recordings made by nodescope can be deleted here.");
    },
    keep: () => setDoomed([]),
    deleteThem: async () => {
      await doing(async () => {
        for (const recording of doomed()) {
          await send<DeletedRecording>("DELETE", `library/${recording.id}`);
        }
      });
      setDoomed([]);
      setMarked(new Set<string>());
      await refresh();
    },
  };
}

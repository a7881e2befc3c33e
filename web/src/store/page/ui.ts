/**
 * UI state that is neither run data nor stored between visits: tabs, searches, overlays.
 *
 * Invariant: only signals; all decisions are made in `Store`.
 */

import { type Accessor, createSignal, type Setter } from "solid-js";

export type OutlineTab = "outline" | "runs";
export type InspectorTab = "value" | "gradient" | "inputs" | "steps" | "diff" | "why";
/** `breakpoints` is a tab only if there is no room for it beside the others. */
export type DockTab = "timeline" | "console" | "problems" | "watches" | "branches" | "breakpoints";
export type Overlay = "none" | "palette" | "keys";
export const COLOUR_MODES = [
  "family",
  "time",
  "self",
  "memory",
  "flops",
  "roofline",
  "finite",
  "zeros",
  "gradient",
  "file",
] as const;
export type ColourMode = (typeof COLOUR_MODES)[number];
export type ValueForm = "picture" | "numbers";

const DOCK_TABS: readonly DockTab[] = [
  "timeline",
  "console",
  "problems",
  "watches",
  "branches",
  "breakpoints",
];

export type Course = "none" | "path" | "memory";

type Signals<T> = { readonly [K in keyof T]: Accessor<T[K]> };
type Setters<T> = { readonly [K in keyof T as `set${Capitalize<string & K>}`]: Setter<T[K]> };

interface UiState {
  outlineTab: OutlineTab;
  inspectorTab: InspectorTab;
  dockTab: DockTab;
  overlay: Overlay;
  colourBy: ColourMode;
  /** How tensors are shown: small ones, whose numbers can be read at a glance, and larger ones. */
  smallForm: ValueForm;
  valueForm: ValueForm;
  search: string;
  zoom: number;
  /** Grows with each camera move by the user; 0 while the camera follows the graph. */
  placed: number;
  /** Whether the list of kept views is open. */
  bookmarks: boolean;
  layoutBusy: boolean;
  /** Whether the layout will choose the open scopes, without the graph growing further. */
  choiceAhead: boolean;
  /** The share of the layout that is done, while a layout is in progress. */
  layoutShare: number;
  outlineOpen: boolean;
  /** Whether a step's changes are shown: until turned off, or only while the pointer hovers. */
  showChanges: boolean;
  peekChanges: boolean;
  /** Whether the form that changes a value is open. */
  editing: boolean;
  /** Whether the form that adds a breakpoint is open. */
  adding: boolean;
  /** Whether the legend is shown on the canvas. */
  legend: boolean;
  /** Whether control edges are drawn: an order between nodes that pass no value. */
  controlEdges: boolean;
  /** What the timeline shows of the step in addition to its bars. */
  course: Course;
  /** The critical path as the step ran, or by data alone; undefined: the more informative one. */
  pathBy: "ran" | "data" | undefined;
  /** The moment whose live values are listed: the memory peak, or the moment shown. */
  memoryAt: "peak" | "moment";
}

export type Ui = Signals<UiState> & Setters<UiState>;

export function createUi(
  tab: string | undefined,
  changes = false,
  colour = "family",
  control = false,
): Ui {
  const [outlineTab, setOutlineTab] = createSignal<OutlineTab>("outline");
  const [inspectorTab, setInspectorTab] = createSignal<InspectorTab>("value", {
    equals: false, // choosing the current tab again must still bring it to the front
  });
  const [dockTab, setDockTab] = createSignal<DockTab>(
    DOCK_TABS.find((candidate) => candidate === tab) ?? "timeline",
  );
  const [overlay, setOverlay] = createSignal<Overlay>("none");
  const [colourBy, setColourBy] = createSignal<ColourMode>(
    COLOUR_MODES.find((mode) => mode === colour) ?? "family",
  );
  const [smallForm, setSmallForm] = createSignal<ValueForm>("numbers");
  const [valueForm, setValueForm] = createSignal<ValueForm>("picture");
  const [search, setSearch] = createSignal("");
  const [zoom, setZoom] = createSignal(1);
  const [placed, setPlaced] = createSignal(0);
  const [bookmarks, setBookmarks] = createSignal(false);
  const [layoutBusy, setLayoutBusy] = createSignal(false);
  const [choiceAhead, setChoiceAhead] = createSignal(false);
  const [layoutShare, setLayoutShare] = createSignal(0);
  const [outlineOpen, setOutlineOpen] = createSignal(false);
  const [showChanges, setShowChanges] = createSignal(changes);
  const [peekChanges, setPeekChanges] = createSignal(false);
  const [editing, setEditing] = createSignal(false);
  const [adding, setAdding] = createSignal(false);
  const [legend, setLegend] = createSignal(true);
  const [controlEdges, setControlEdges] = createSignal(control);
  const [course, setCourse] = createSignal<Course>("none");
  const [pathBy, setPathBy] = createSignal<"ran" | "data" | undefined>();
  const [memoryAt, setMemoryAt] = createSignal<"peak" | "moment">("peak");
  return {
    outlineTab,
    setOutlineTab,
    inspectorTab,
    setInspectorTab,
    dockTab,
    setDockTab,
    overlay,
    setOverlay,
    colourBy,
    setColourBy,
    smallForm,
    setSmallForm,
    valueForm,
    setValueForm,
    search,
    setSearch,
    zoom,
    setZoom,
    placed,
    setPlaced,
    bookmarks,
    setBookmarks,
    layoutBusy,
    setLayoutBusy,
    choiceAhead,
    setChoiceAhead,
    layoutShare,
    setLayoutShare,
    outlineOpen,
    setOutlineOpen,
    showChanges,
    setShowChanges,
    peekChanges,
    setPeekChanges,
    editing,
    setEditing,
    adding,
    setAdding,
    legend,
    setLegend,
    controlEdges,
    setControlEdges,
    course,
    setCourse,
    pathBy,
    setPathBy,
    memoryAt,
    setMemoryAt,
  };
}

/**
 * Commands that show a tab: those of the inspector by number, those of the dock by letter.
 *
 * Invariant: one for each tab without another command.
 */

import type { PageCommand } from "@/app/page_command";
import type { DockTab, InspectorTab, OutlineTab, Ui } from "@/store/page/ui";

const INSPECTOR: readonly (readonly [InspectorTab, string])[] = [
  ["value", "its value"],
  ["gradient", "its gradient"],
  ["inputs", "its inputs"],
  ["steps", "its steps"],
  ["diff", "the difference between two moments"],
  ["why", "explain its value"],
];
const DOCK: readonly (readonly [DockTab, string, string])[] = [
  ["timeline", "Y", "Show the timeline"],
  ["console", "O", "Show the console: program output"],
  ["problems", "P", "Show the problems: NaN and Inf"],
];
const OUTLINE: readonly (readonly [OutlineTab, string])[] = [
  ["outline", "Show the outline"],
  ["runs", "Show the list of runs"],
];

export function tabCommands(ui: Ui, docked: () => boolean): readonly PageCommand[] {
  const always = (): boolean => true;
  return [
    ...INSPECTOR.map(
      ([tab, panel], place): PageCommand => ({
        title: `Inspector: ${panel}`,
        keys: String(place + 1),
        group: "Page",
        enabled: always,
        run: () => void ui.setInspectorTab(tab),
      }),
    ),
    ...DOCK.map(
      ([tab, keys, title]): PageCommand => ({
        title,
        keys,
        group: "Page",
        enabled: docked,
        run: () => void ui.setDockTab(tab),
      }),
    ),
    ...OUTLINE.map(
      ([tab, title]): PageCommand => ({
        title,
        keys: "",
        group: "Page",
        enabled: always,
        run: () => {
          ui.setOutlineTab(tab);
          ui.setOutlineOpen(true);
        },
      }),
    ),
  ];
}

/**
 * Why the program is stopped where it is, in words that follow "Stopped after matmul".
 *
 * Invariant: pure; never repeats the node's name, which precedes these words.
 */

import { formatCount } from "@/base/numbers";
import { describeBreakpoint } from "@/store/debugger/breakpoints";
import type { Breakpoint, Stop } from "@/wire/types.gen";

/** `Stopped after`; followed by the node's name, unless the program itself raised an error. */
export function stopWords(stop: Stop): string {
  // Raised by the program itself, not by the last node.
  if (stop.error !== "") return "Stopped by an error";
  if (stop.reason === "exception") return "Stopped at the error raised by";
  if (stop.reason === "watch") return "Stopped by a watch at";
  return stop.when === "before" ? "Stopped before" : "Stopped after";
}

/** Args: breakpoint: The breakpoint that was hit, if it still exists. */
export function reasonWords(stop: Stop, breakpoint: Breakpoint | undefined): string {
  // The stop's own text is written for a terminal: it names the node, and breakpoints by number.
  const { node_name: name, text } = stop;
  switch (stop.reason) {
    case "entry":
      return "No operation has run yet.";
    case "step":
      return text.startsWith("Stepped to the next training step")
        ? `The first operation of step ${formatCount(stop.step)}.`
        : "Stepped to here.";
    case "run_to":
      return text.includes(", a backward node of ") ? `${text}.` : "Ran to here.";
    case "pause":
      return text === `Stopped at ${name}` ? "Pause was requested." : text;
    case "breakpoint":
      if (breakpoint !== undefined) return `Breakpoint ${describeBreakpoint(breakpoint)}`;
      return text.replace(/^Breakpoint \d+: /, "Breakpoint ");
    case "exception":
      return text.startsWith(`${name} raises `) ? text.slice(`${name} raises `.length) : text;
    default:
      return text;
  }
}

/**
 * Synonyms for commands: words that users type for a command with another name.
 *
 * Invariant: pure; a match of a command's own words ranks above a match by synonym.
 */

import { fitness } from "@/base/fitness";

/** Groups of synonyms; a command also matches all words of a group with a word of its title. */
const SAME: readonly (readonly string[])[] = [
  ["fold", "collapse", "close", "shut", "hide", "minimise", "minimize"],
  ["open", "unfold", "expand", "show", "maximise", "maximize"],
  ["continue", "play", "resume", "go", "proceed", "start", "run"],
  ["pause", "stop", "halt", "suspend", "break", "interrupt"],
  ["detach", "quit", "exit", "stop", "leave", "disconnect", "end", "finish"],
  ["back", "previous", "rewind", "undo", "backwards", "reverse"],
  ["next", "forward", "advance"],
  ["edit", "change", "set", "modify", "assign", "what-if"],
  ["why", "explain", "cause", "reason", "origin", "trace"],
  ["compare", "diff", "difference", "delta"],
  ["branches", "what-if", "fork"],
  ["watch", "watches", "monitor", "rules", "alert"],
  ["breakpoint", "breakpoints", "bp", "stop"],
  ["fit", "zoom", "reset", "whole", "centre", "center"],
  ["export", "save", "download", "picture", "image", "png", "print"],
  ["theme", "mode", "dark", "light", "night", "colours", "colors", "appearance"],
  ["shortcuts", "keys", "hotkeys", "keyboard", "help", "cheatsheet"],
  ["search", "find", "filter", "look"],
  ["runs", "recordings", "history", "sessions", "list"],
  ["live", "now", "end", "latest", "newest"],
  ["console", "output", "print", "log", "stdout", "terminal"],
  ["problems", "errors", "nan", "inf", "warnings"],
  ["timeline", "profile", "profiler", "flame", "time"],
  ["legend", "key", "colours", "colors"],
  ["changes", "new", "rewired"],
  ["hold", "mark", "pin", "bookmark"],
  ["out", "up", "parent"],
  ["into", "inside", "down", "child"],
];

const MEANT = 150;

/** Like `fitness`, for a command: lower is better, undefined for no match. */
export function commandFitness(title: string, wanted: string): number | undefined {
  const own = fitness(title, wanted);
  if (own !== undefined && own < 1000) return own;
  const words = wordsOf(title);
  const also = SAME.filter((group) => group.some((word) => words.includes(word))).flat();
  const typed = wordsOf(wanted);
  const known = (word: string) => words.some((candidate) => candidate.startsWith(word));
  const meant = (word: string) => also.some((candidate) => candidate.startsWith(word));
  if (typed.length === 0 || !typed.every((word) => known(word) || meant(word))) return own;
  // A full word ranks before a prefix of a word.
  const whole = typed.every((word) => words.includes(word) || also.includes(word));
  return MEANT + (whole ? 0 : 50) + title.length * 0.01;
}

function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}-]+/gu) ?? [];
}

import { expect, test } from "vitest";
import { type Capable, offers, withheldWords, withoutFalseTimes } from "@/store/run/capabilities";
import type { RunModel } from "@/store/run/run_model";
import { decodeExecutions } from "@/wire/decode";
import { CAPABILITIES, columns } from "@/wire/fixtures";
import type { Capabilities, Framework } from "@/wire/types.gen";

const NOTHING: Capabilities = {
  before: false,
  edit: "none",
  gradients: false,
  scopes: "none",
  steps: "none",
  timing: "none",
  values: "none",
  rerun: "none",
  workers: false,
  immutable: false,
  unrolled: false,
};
const ENGINE: Framework = {
  dialect: "nodescope",
  version: "0.1",
  capabilities: CAPABILITIES,
  threads: 0,
};
const TORCH: Framework = {
  dialect: "torch",
  version: "2.13",
  capabilities: { ...CAPABILITIES, gradients: false, edit: "in_place", rerun: "none" },
  threads: 2,
};
const RAY: Framework = { dialect: "ray", version: "3", capabilities: NOTHING, threads: 0 };

/** Node 1 is nodescope's, 2 torch's, 3 ray's, 4 of a dialect without stated capabilities. */
function run(...frameworks: readonly Framework[]): Capable {
  const nodes = [undefined, "nodescope", "torch", "ray", "other"].map((dialect) =>
    dialect === undefined ? undefined : { dialect },
  );
  return { model: () => ({ info: { frameworks }, graph: { nodes } }) };
}

test("a node offers what its own framework can do", () => {
  const both = run(ENGINE, TORCH);
  expect(offers(both, "gradients", 1)).toBe(true);
  expect(offers(both, "gradients", 2)).toBe(false);
  expect(offers(both, "edit", 2)).toBe(true);
  expect(withheldWords(both, 1)).toBe("");
  expect(withheldWords(both, 2)).toBe(
    "Not available for torch: gradients; What if, since its operations cannot be run again.",
  );
  expect(withheldWords(both, 2, ["edit", "gradients"])).toBe("Not available for torch: gradients.");
});

test("a run offers what any of its frameworks can do", () => {
  expect(offers(run(ENGINE, RAY), "rerun")).toBe(true);
  expect(offers(run(TORCH, RAY), "rerun")).toBe(false);
  expect(withheldWords(run(TORCH, RAY), undefined, ["rerun"])).toMatch(
    /^Not available for torch, ray: What/,
  );
  expect(withheldWords(run(RAY), 3)).toBe(
    "Not available for ray: values; gradients; editing values; stops before a node; " +
      "times; scopes; What if, since its operations cannot be run again.",
  );
});

test("a run without stated capabilities offers everything", () => {
  expect(offers(run(), "rerun")).toBe(true);
  expect(offers(run(), "before", 1)).toBe(true);
  expect(offers(run(ENGINE), "gradients", 4)).toBe(true);
  expect(withheldWords(run(), 1)).toBe("");
  expect(withheldWords({ model: () => undefined })).toBe("");
});

test("times are dropped for nodes whose framework measures none", () => {
  const executions = decodeExecutions(
    columns([1, 2, 3].map((node) => ({ seq: node, node, duration: 10 }))),
  );
  const shownOf = (...frameworks: readonly Framework[]) =>
    withoutFalseTimes(executions, run(...frameworks).model() as RunModel);
  expect([...shownOf(ENGINE, TORCH, RAY).durationNs]).toEqual([10, 10, 0]);
  expect(shownOf(ENGINE, TORCH)).toBe(executions);
  expect(withoutFalseTimes(executions, undefined)).toBe(executions);
});

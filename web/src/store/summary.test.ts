import { expect, test } from "vitest";
import { unsummed } from "@/store/summary";

test("a run that ended with nodescope is no fault of the summary", () => {
  const away = "The server does not answer. is nodescope still running?";
  expect(unsummed("", "open")).toBe("Summing up the run…");
  expect(unsummed(away, "lost")).toContain(away);
  expect(unsummed(away, "ended")).not.toContain(away);
  expect(unsummed("", "ended")).toContain("with the recording");
});

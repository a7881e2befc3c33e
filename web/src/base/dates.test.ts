import { expect, test } from "vitest";
import { formatClock, formatDay } from "@/base/dates";

test("a moment has the same 24-hour digits in every language", () => {
  const evening = new Date(2026, 0, 5, 21, 7, 3).getTime();
  expect(formatDay(evening)).toBe("2026-01-05");
  expect(formatClock(evening)).toBe("21:07");
  expect(formatClock(evening, { seconds: true })).toBe("21:07:03");
  expect(formatClock(new Date(2026, 0, 5).getTime())).toBe("00:00");
});

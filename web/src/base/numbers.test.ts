import { describe, expect, test } from "vitest";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  formatShape,
  median,
  plural,
} from "@/base/numbers";

describe("numbers", () => {
  test.each([
    [0, "0"],
    [-0, "−0"],
    [1, "1"],
    [-3, "−3"],
    [1263, "1,263"],
    [0.015604, "0.015604"],
    [43.568, "43.568"],
    [0.058114321, "0.058114"],
    [1234.5678, "1,234.6"],
    [123456.7, "123,457"],
    [1.00001, "1.0000"],
    [1.2e-9, "1.2e−9"],
    [6.02214e23, "6.022e23"],
    [-1.5e-7, "−1.5e−7"],
    [Number.NaN, "NaN"],
    [Infinity, "+Inf"],
    [-Infinity, "−Inf"],
    [null, "–"],
    [undefined, "–"],
  ])("%s reads %s", (value, text) => expect(formatNumber(value)).toBe(text));

  test("every finite number stays short", () => {
    for (let power = -300; power <= 300; power++) {
      for (const mantissa of [1.23456789, -9.87654321, 9.99999999]) {
        expect(formatNumber(mantissa * 10 ** power).length).toBeLessThanOrEqual(11);
      }
    }
  });
});

describe("units", () => {
  test.each([
    [412, "412\u202fns"],
    [1840, "1.84\u202fµs"],
    [1_840_000, "1.84\u202fms"],
    [41_300_000, "41.3\u202fms"],
    [2.5e9, "2.50\u202fs"],
    [125e9, "2\u202fmin 05\u202fs"],
    [-100e6, "−100\u202fms"],
    [999_600_000, "1.00\u202fs"],
    [999_499_999, "999\u202fms"],
    [999_999, "1.00\u202fms"],
    [999.7, "1.00\u202fµs"],
    [9_996, "10.0\u202fµs"],
    [99_960_000, "100\u202fms"],
    [59_960_000_000, "1\u202fmin 00\u202fs"],
  ])("%d ns reads %s", (ns, text) => expect(formatDuration(ns)).toBe(text));

  test.each([
    [12, "12\u202fB"],
    [2 * 1024 ** 2, "2.00\u202fMiB"],
    [256 * 1024, "256\u202fKiB"],
    [48.2 * 1024 ** 2, "48.2\u202fMiB"],
    [1023, "1023\u202fB"],
    [1024 ** 2 - 1, "1.00\u202fMiB"],
  ])("%d bytes read %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));

  test("shapes, counts and words", () => {
    expect(formatShape([16, 8, 64])).toBe("(16, 8, 64)");
    expect(formatShape([1, 2, 3], 2)).toBe("(1, 2, …)");
    expect(formatShape([])).toBe("scalar");
    // Beside "512 B", a bare number would read as part of it.
    expect(formatShape([64])).toBe("(64,)");
    expect(formatShape([null])).toBe("(?,)");
    expect(formatCount(1234567)).toBe("1,234,567");
    expect(plural(1, "op")).toBe("1 op");
    expect(plural(1200, "op")).toBe("1,200 ops");
    expect(median([5, 1, 3])).toBe(3);
    expect(median([4, 1, 3, 2])).toBe(2.5);
  });
});

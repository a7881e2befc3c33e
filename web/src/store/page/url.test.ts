import { expect, test } from "vitest";
import { type PageAddress, readAddress, writeAddress } from "@/store/page/url";

const EMPTY: PageAddress = {
  run: undefined,
  selection: undefined,
  open: undefined,
  seq: undefined,
  tab: undefined,
  changes: false,
};

test.each<PageAddress>([
  EMPTY,
  { ...EMPTY, run: "0123456789abcdef", selection: { kind: "node", id: 12 }, seq: 0 },
  { ...EMPTY, selection: { kind: "scope", path: "a b/ü&#%2C,c" }, open: [] },
  { ...EMPTY, open: ["net/a,b", "x%2Cy", "100%"], tab: "console" },
  { ...EMPTY, changes: true },
])("what was written is read: %j", (address) => {
  expect(readAddress(`#${writeAddress(address)}`)).toEqual(address);
});

test("nonsense is ignored", () => {
  expect(readAddress("#run=../../etc&node=-1&seq=1e9&scope=")).toEqual(EMPTY);
});

test("too many open scopes are not worth an address", () => {
  const open = Array.from({ length: 500 }, (_, i) => `s${i}`);
  expect(readAddress(writeAddress({ ...EMPTY, open })).open).toBeUndefined();
});

import { expect, test } from "vitest";
import { type PageAddress, readAddress, writeAddress } from "@/store/page/url";

const EMPTY: PageAddress = {
  run: undefined,
  selection: undefined,
  open: undefined,
  seq: undefined,
  tab: undefined,
  changes: false,
  control: false,
  at: undefined,
  colour: undefined,
};

test.each<PageAddress>([
  EMPTY,
  { ...EMPTY, run: "0123456789abcdef", selection: { kind: "node", id: 12 }, seq: 0 },
  { ...EMPTY, selection: { kind: "scope", path: "a b/ü&#%2C,c" }, open: [] },
  { ...EMPTY, open: ["net/a,b", "x%2Cy", "100%"], tab: "console" },
  { ...EMPTY, changes: true },
  { ...EMPTY, control: true },
  { ...EMPTY, at: { item: { kind: "node", id: 12 }, dx: -40, dy: 7, zoom: 0.125 }, colour: "time" },
  { ...EMPTY, at: { item: { kind: "scope", path: "a,b c/ü" }, dx: 0, dy: 0, zoom: 2 } },
])("what was written is read: %j", (address) => {
  expect(readAddress(`#${writeAddress(address)}`)).toEqual(address);
});

test("invalid parts are ignored", () => {
  expect(readAddress("#run=../../etc&node=-1&seq=1e9&scope=")).toEqual(EMPTY);
});

test.each(["0,1,1,n1", "1,1,1,n", "1,1,1,x1", "1,1,1e9,n1", "1,1,1,nx", "-1,1,1,n1", "1,1,1,s"])(
  "%s is not a valid viewpoint",
  (at) => expect(readAddress(`#at=${at}`).at).toBeUndefined(),
);

test("too many open scopes are left out of the address", () => {
  const open = Array.from({ length: 500 }, (_, i) => `s${i}`);
  expect(readAddress(writeAddress({ ...EMPTY, open })).open).toBeUndefined();
});

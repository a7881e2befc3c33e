/**
 * Look-ups by id that cost little for large graphs, where most entries are never read.
 *
 * Invariant: they answer as a map would, also for ids that are neither small nor whole.
 */

/** Numbers by id. */
export interface ById {
  get(id: number): number | undefined;
}

/** Larger ids are put into a map. */
const LARGEST = 1 << 24;

/** Whole numbers from 0 on by id, in one array. */
export class IdTable implements ById {
  /** Each number plus 1; 0 = none. */
  private entries = new Int32Array(1024);
  private readonly others = new Map<number, number>();

  get(id: number): number | undefined {
    const entry = this.entries[id];
    if (entry !== undefined && entry > 0) return entry - 1;
    return this.others.size === 0 ? undefined : this.others.get(id);
  }

  has(id: number): boolean {
    return this.get(id) !== undefined;
  }

  set(id: number, entry: number): void {
    if (!(id >= 0 && id < LARGEST && Number.isInteger(id))) {
      this.others.set(id, entry);
      return;
    }
    if (id >= this.entries.length) {
      const grown = new Int32Array(Math.max(id + 1, 2 * this.entries.length));
      grown.set(this.entries);
      this.entries = grown;
    }
    this.entries[id] = entry + 1;
  }
}

/** A map whose entries are made when they are first read. */
abstract class Made<K, V> implements ReadonlyMap<K, V> {
  abstract readonly size: number;
  abstract get(key: K): V | undefined;
  abstract keys(): MapIterator<K>;

  has(key: K): boolean {
    return this.get(key) !== undefined;
  }

  *entries(): MapIterator<[K, V]> {
    for (const key of this.keys()) yield [key, this.get(key)!];
  }

  *values(): MapIterator<V> {
    for (const key of this.keys()) yield this.get(key)!;
  }

  forEach(act: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const key of this.keys()) act(this.get(key)!, key, this);
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries();
  }
}

/** Entries by id, each made when it is first read. */
export class MadeById<V> extends Made<number, V> {
  readonly size: number;
  private readonly rows = new IdTable();
  private readonly made: V[] = [];

  /** `ids`: without duplicates. */
  constructor(
    private readonly ids: ArrayLike<number>,
    private readonly make: (row: number) => V,
  ) {
    super();
    this.size = ids.length;
    for (let row = 0; row < ids.length; row++) this.rows.set(ids[row]!, row);
  }

  get(id: number): V | undefined {
    const row = this.rows.get(id);
    if (row === undefined) return undefined;
    this.made[row] ??= this.make(row);
    return this.made[row];
  }

  override has(id: number): boolean {
    return this.rows.has(id);
  }

  *keys(): MapIterator<number> {
    for (let row = 0; row < this.ids.length; row++) yield this.ids[row]!;
  }
}

/** The entries of another map, each converted when it is first read. */
export class Mapped<K, V, W> extends Made<K, W> {
  private readonly made = new Map<K, W>();

  constructor(
    private readonly from: ReadonlyMap<K, V>,
    private readonly form: (value: V) => W,
  ) {
    super();
  }

  get size(): number {
    return this.from.size;
  }

  get(key: K): W | undefined {
    const known = this.made.get(key);
    if (known !== undefined) return known;
    const value = this.from.get(key);
    if (value === undefined) return undefined;
    const formed = this.form(value);
    this.made.set(key, formed);
    return formed;
  }

  override has(key: K): boolean {
    return this.from.has(key);
  }

  keys(): MapIterator<K> {
    return this.from.keys();
  }
}

/** A map that is made as a whole when it is first read. */
export class MadeLater<K, V> extends Made<K, V> {
  private map: ReadonlyMap<K, V> | undefined;

  constructor(private readonly make: () => ReadonlyMap<K, V>) {
    super();
  }

  private get all(): ReadonlyMap<K, V> {
    this.map ??= this.make();
    return this.map;
  }

  get size(): number {
    return this.all.size;
  }

  get(key: K): V | undefined {
    return this.all.get(key);
  }

  keys(): MapIterator<K> {
    return this.all.keys();
  }
}

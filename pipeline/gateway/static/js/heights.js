/**
 * Where the rows of a long list stand, most of them unseen: heights as measured, else as estimated.
 * Pure; in pixels. A Fenwick tree: a height that turns out another, a row's place and the row at a
 * place cost log n, however long the list is.
 */
export class Heights {
  /** `estimate(row)`: a guess at what was never mounted; asked once for each version of a row. */
  constructor(estimate) {
    this._estimate = estimate;
    this._estimated = new WeakMap();
    this._measured = new Map();
    this._own = new Float64Array(0); // by index
    this._tree = new Float64Array(1); // [i] is the sum of the i & -i heights that end with row i - 1
    this.rows = [];
  }

  get total() {
    return this.offset(this.rows.length);
  }

  setRows(rows) {
    this.rows = rows;
    this._build();
  }

  /** The top of a row; that of the one behind the last is the list's end. */
  offset(index) {
    let sum = 0;
    for (let at = Math.min(index, this.rows.length); at > 0; at -= at & -at) sum += this._tree[at];
    return sum;
  }

  /** The row at a height above the list's end, the last one below it. */
  indexAt(y) {
    const count = this.rows.length;
    let [at, left] = [0, y];
    for (let step = 2 ** Math.floor(Math.log2(count || 1)); step > 0; step >>= 1) {
      if (at + step > count || this._tree[at + step] > left) continue;
      at += step;
      left -= this._tree[at];
    }
    return Math.min(at, Math.max(0, count - 1));
  }

  /** `[[index, height]]` of mounted rows; whether anything is not as it was thought. */
  measured(found) {
    let wrong = false;
    for (const [index, height] of found) {
      const by = height - this._own[index];
      if (Math.abs(by) <= 0.5) continue;
      wrong = true;
      this._measured.set(this.rows[index].key, height);
      this._own[index] = height;
      for (let at = index + 1; at <= this.rows.length; at += at & -at) this._tree[at] += by;
    }
    return wrong;
  }

  /** A width was changed: nothing that was measured holds. */
  forget() {
    this._measured.clear();
    this._build();
  }

  _build() {
    const { rows } = this;
    const count = rows.length;
    if (this._own.length < count) this._own = new Float64Array(Math.ceil(count * 1.5));
    if (this._tree.length <= count) this._tree = new Float64Array(this._own.length + 1);
    for (let index = 0; index < count; index += 1) {
      this._own[index] = this._measured.get(rows[index].key) ?? this._guess(rows[index]);
    }
    this._tree.fill(0);
    for (let at = 1; at <= count; at += 1) {
      this._tree[at] += this._own[at - 1];
      const above = at + (at & -at);
      if (above <= count) this._tree[above] += this._tree[at];
    }
  }

  _guess(row) {
    let guess = this._estimated.get(row);
    if (guess === undefined) this._estimated.set(row, (guess = this._estimate(row)));
    return guess;
  }
}

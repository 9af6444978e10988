/**
 * A list of any length of which only what is seen is mounted. It stays where the reader is while
 * rows come above, change height or go; at the end it follows what comes.
 */
import { render } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { Heights } from "./heights.js";

const MOST = 140; // rows mounted at once
const BEYOND = 700; // pixels rendered above and below what is seen
const ENOUGH = 300; // of these as many are left before others are rendered
const END = 48; // pixels from the end that still count as the end

export class List {
  /** `scroller`: an element that scrolls. `template(row, index)`; each row has a `key`. */
  constructor(scroller, { estimate, template, onscroll = () => {}, follows = true }) {
    this.scroller = scroller;
    this.following = follows;
    this._template = template;
    this._onscroll = onscroll;
    this._heights = new Heights(estimate);
    this._space = scroller.appendChild(document.createElement("div"));
    this._space.className = "space";
    this._rows = this._space.appendChild(document.createElement("div"));
    this._rows.className = "mounted";
    this._window = [0, 0];
    this._anchor = null; // the row at the top of what is seen, and how far in
    // As last read or set: to ask the browser after each write costs it a layout.
    this._top = 0;
    this._seen = 0;
    this._width = 0;
    this._set = {};
    this._follows = follows;
    this._scrolled = () => this._onScroll();
    scroller.addEventListener("scroll", this._scrolled, { passive: true });
    this._resized = new ResizeObserver(() => this._onResize());
    this._resized.observe(scroller);
    this._grown = new ResizeObserver(([entry]) => this._onGrown(entry.contentRect.height));
    this._grown.observe(this._rows);
  }

  close() {
    this.scroller.removeEventListener("scroll", this._scrolled);
    this._resized.disconnect();
    this._grown.disconnect();
    this._space.remove();
  }

  get rows() {
    return this._heights.rows;
  }

  /** Other rows, or the same in another order. */
  setRows(rows) {
    this._heights.setRows(rows);
    this.paint();
  }

  /** What rows look like may have changed; where they are has not. */
  paint() {
    this._seen = this.scroller.clientHeight;
    this._place();
    this._mount();
    this._settle();
  }

  /** Show a row at the top (`how` "near": only if it is out of sight). */
  show(index, how = "top") {
    if (index < 0 || index >= this.rows.length) return;
    const [top, end] = [this._heights.offset(index), this._heights.offset(index + 1)];
    const seen = top >= this._top && end <= this._top + this._seen;
    if (how === "near" && seen) return;
    const low = how === "near" && top > this._top && end - top < this._seen;
    const delta = low ? end - top - this._seen + 24 : -64;
    this.following = false;
    this._anchorAt(index, index === 0 && !low ? 0 : delta);
    this.paint();
  }

  toEnd() {
    this.following = this._follows;
    this._anchor = null;
    if (!this.following) this._anchorAt(this.rows.length - 1, 0);
    this.paint();
  }

  element(key) {
    for (const child of this._rows.children) if (child.dataset.key === key) return child;
    return null;
  }

  /** The first row that is seen. */
  get topIndex() {
    return this._heights.indexAt(this._top + 1);
  }

  /** Pixels of the list above what is seen, and below it. */
  get beyond() {
    return { above: this._top, below: Math.max(0, this._heights.total - this._top - this._seen) };
  }

  // --- within

  _onScroll() {
    const { scrollTop, clientHeight } = this.scroller;
    if (Math.abs(scrollTop - this._top) < 1) return; // as it was set here
    this._top = scrollTop;
    this._seen = clientHeight;
    this.following = this._follows && this.beyond.below <= END;
    this._hold();
    if (!this._isCovered()) {
      this._mount();
      this._settle();
    }
    this._onscroll(this);
  }

  _onResize() {
    const width = this.scroller.clientWidth;
    if (width !== this._width && this._width) this._heights.forget();
    this._width = width;
    this.paint();
  }

  /** Rows grew or shrank without having been rendered. */
  _onGrown(height) {
    const [first, last] = this._window;
    const known = this._heights.offset(last) - this._heights.offset(first);
    if (Math.abs(height - known) > 0.5) this._settle();
  }

  /** Remember where the reader is. */
  _hold() {
    const index = this.topIndex;
    if (this.rows[index]) this._anchorAt(index, this._top - this._heights.offset(index));
    else this._anchor = null;
  }

  _anchorAt(index, delta) {
    this._anchor = this.rows[index] ? { key: this.rows[index].key, delta, index } : null;
  }

  /** The rows within so many pixels of what is seen. */
  _range(beyond) {
    const first = this._heights.indexAt(Math.max(0, this._top - beyond));
    const last = this._heights.indexAt(this._top + this._seen + beyond) + 1;
    const most = Math.min(last, this.rows.length, first + MOST);
    return [Math.min(first, this.rows.length), most];
  }

  _isCovered() {
    const [first, last] = this._range(ENOUGH);
    return first >= this._window[0] && last <= this._window[1];
  }

  _mount() {
    const [first, last] = (this._window = this._range(BEYOND));
    const rows = this.rows.slice(first, last);
    render(repeat(rows, (row) => row.key, (row, at) => this._template(row, first + at)), this._rows);
  }

  /** Take in real heights until what is seen is as it is thought to be: first read, then write. */
  _settle() {
    for (let round = 0; round < 4; round += 1) {
      const [first] = this._window;
      const found = [...this._rows.children].map((child, at) => [first + at, child.getBoundingClientRect().height]);
      this._heights.measured(found);
      this._place();
      if (this._isCovered()) return;
      this._mount();
    }
  }

  /** Write what follows from the heights; to write what stands there already would cost a layout. */
  _place() {
    const { total } = this._heights;
    this._write(this._space, "height", `${total}px`);
    this._write(this._rows, "transform", `translateY(${this._heights.offset(this._window[0])}px)`);
    const wanted = this.following ? total : this._anchored();
    const top = Math.max(0, Math.min(wanted, total - this._seen));
    if (Math.abs(top - this._top) > 0.5) this.scroller.scrollTop = this._top = top;
  }

  _write(element, name, value) {
    if (this._set[name] === value) return;
    this._set[name] = element.style[name] = value;
  }

  /** Where the anchor says that the top is; where it is when there is none. */
  _anchored() {
    const { _anchor: anchor, rows } = this;
    if (!anchor) return this._top;
    if (rows[anchor.index]?.key !== anchor.key) {
      const index = rows.findIndex((row) => row.key === anchor.key);
      if (index < 0) return this._top;
      anchor.index = index;
    }
    return this._heights.offset(anchor.index) + anchor.delta;
  }
}

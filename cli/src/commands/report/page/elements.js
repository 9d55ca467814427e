'use strict';
// Texts of the data reach the page as text nodes only. Nothing here parses HTML.

const data = JSON.parse(document.getElementById('data').textContent);
const SVG = 'http://www.w3.org/2000/svg';
const NO_VALUES = {
  empty: 'The tensor has no elements.',
  blob: 'A blob has no elements, only bytes.',
  unknown_dtype: 'The dtype is unknown to this version, so the values are not read.',
  blocks: 'The dtype stores blocks of several elements, which are not decoded.',
  bits: 'The elements are packed or uninterpreted bits, not numbers.',
};

// Elements and texts.

function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === 'class') made.className = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key === 'text') made.textContent = value;
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function svg(tag, props) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(props)) made.setAttribute(key, value);
  return made;
}

const CONTROL = /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Makes characters visible that would change the direction of text or take no room, and shortens it in the middle. */
function visible(text, most = 400) {
  if (text.length > most) {
    const half = most >> 1;
    text = `${text.slice(0, half)}…${text.slice(-half)}`;
  }
  return text.replace(CONTROL, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

const grouped = new Intl.NumberFormat('en-US');
/** Numbers that JavaScript may have rounded are marked. */
const count = (number) => (Number.isSafeInteger(number) ? '' : '≈') + grouped.format(number);
const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

function size(bytes) {
  if (bytes < 1024) return counted(bytes, 'byte');
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let at = -1;
  do { bytes /= 1024; at += 1; } while (bytes >= 1024 && at + 1 < units.length);
  return `${bytes.toFixed(2)} ${units[at]}`;
}

/** A number of parameters in a few characters. */
function short(number) {
  for (const [unit, letter] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']]) {
    if (number >= unit) return `${Number((number / unit).toPrecision(3))} ${letter}`;
  }
  return count(number);
}

function share(part, whole) {
  if (!whole) return '0 %';
  const percent = (part / whole) * 100;
  // Nothing is called 0 % or 100 % that is not.
  if (percent > 0 && percent < 0.1) return '< 0.1 %';
  if (percent < 100 && percent > 99.9) return '> 99.9 %';
  return `${percent.toFixed(percent > 0 && (percent < 10 || percent > 99) && percent < 100 ? 1 : 0)} %`;
}

/** A number with four digits. */
function digits(number) {
  const rounded = Number(number.toPrecision(4));
  const magnitude = Math.abs(rounded);
  return magnitude >= 1e6 || (magnitude < 1e-3 && magnitude > 0) ? rounded.toExponential() : String(rounded);
}
/** A number of which the text has all digits, with six of them; integers keep all. */
function figure(text) {
  const number = Number(text);
  return /^-?\d+$/.test(text) || Number.isNaN(number) ? text : String(Number(number.toPrecision(6)));
}
/** A text of which both ends stay in sight if it does not fit. */
function ends(text, kind = '') {
  const at = Math.max(0, text.length - 14);
  return at < 8 ? [el('span', { class: kind, text })] : [el('span', { class: kind, text: text.slice(0, at) }), el('span', { class: `end ${kind}`, text: text.slice(at) })];
}

const pressed = (button, on) => button.setAttribute('aria-pressed', String(on));
const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const swatch = (color) => { const made = el('i', { class: 'swatch' }); made.style.background = color; return made; };

/** Buttons of which one is pressed. */
function choice(label, options, chosen, pick) {
  const group = el('span', { class: 'group', role: 'group', 'aria-label': label });
  for (const [value, text] of options) {
    const button = el('button', { class: 'quiet', type: 'button', text, 'data-value': value, onclick: () => {
      for (const other of group.children) pressed(other, other === button);
      pick(value);
    } });
    pressed(button, value === chosen);
    group.append(button);
  }
  return group;
}

/** Draws on a canvas with the pixels of the screen. */
function painter(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const paint = canvas.getContext('2d');
  paint.scale(scale, scale);
  return paint;
}

/** Functions that draw again when the width or the colors of the page change. */
let redraws = [];
let pending = 0;
function redraw() {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => redraws.forEach((draw) => draw()));
}
window.addEventListener('resize', redraw);

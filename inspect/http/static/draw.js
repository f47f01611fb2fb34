// Drawings. Everything that comes from outside goes into text nodes and numbers, never into markup.

const space = 'http://www.w3.org/2000/svg';

function svg(tag, attributes, ...children) {
  const e = document.createElementNS(space, tag);
  for (const [k, v] of Object.entries(attributes || {})) if (v !== undefined && v !== false) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// hue is a session's colour: the same everywhere on the page.
export function hue(session) {
  let n = 2166136261;
  for (const c of session || '') n = Math.imul(n ^ c.charCodeAt(0), 16777619);
  return ((n >>> 0) * 137) % 360;
}

export function label(part) { return part.data || part.name; }

export const number = n => (n || 0).toLocaleString('en');

// many is a number of things.
export const many = (n, one, more) => number(n) + ' ' + (n === 1 ? one : more);

const cut = (s, most) => s.length > most ? s.slice(0, most - 1) + '…' : s;
const cutFront = (s, most) => s.length > most ? '…' + s.slice(1 - most) : s;

const mostLocks = 8, mostOfEach = 3;

// chosen are the lines that are drawn: those in a possible deadlock, then those whose holder waits elsewhere, then those
// that wait longest.
function chosen(lines, dead) {
  const waits = new Set();
  for (const l of lines) for (const p of l.waiting || []) if (p.session) waits.add(p.session);
  const rank = l => dead.has(l.id) ? 0 : (l.holders || []).some(p => waits.has(p.session)) ? 1 : 2;
  const since = l => l.waiting?.[0]?.since || Infinity;
  const all = lines.filter(l => l.waits > 0 && l.waiting && l.kind !== 'queue' && l.kind !== 'double barrier');
  all.sort((a, b) => rank(a) - rank(b) || since(a) - since(b) || a.id - b.id);
  return all;
}

// drawGraph draws who waits for whom: from the one that waits to the line, from the line to its holders. It
// returns a drawing, null if nobody waits, and how many lines are not in it. room is the width that there is for it.
export function drawGraph(lines, circles, room) {
  const dead = new Set(), deadEdges = new Set();
  for (const c of circles || []) for (const e of c.edges) {
    dead.add(e.line);
    deadEdges.add(e.waiter.session + '>' + e.line);
    deadEdges.add(e.line + '>' + e.ahead.session);
  }
  const all = chosen(lines, dead), some = all.slice(0, mostLocks);
  if (!some.length) return {drawing: null, left: 0};
  const nodes = new Map(), edges = [];
  const node = (key, make) => { if (!nodes.has(key)) nodes.set(key, {key, out: [], into: [], ...make}); return nodes.get(key); };
  const person = (l, p) => node(p.session ? 's' + p.session : 'p' + l.id + '/' + p.key + p.name,
    {kind: 'session', text: label(p), title: label(p) + '\n' + (p.session || ''), hue: hue(p.session || p.name)});
  const join = (from, to, kind, isDead) => {
    const e = {from, to, kind: isDead ? 'dead' : kind};
    if (from.out.some(o => o.to === to)) return;
    edges.push(e); from.out.push(e); to.into.push(e);
  };
  // Of a line in a deadlock those are drawn first that are in it.
  const first = (l, of, mark) => {
    const ranked = [...(of || [])].sort((a, b) => deadEdges.has(mark(b)) - deadEdges.has(mark(a)));
    const elsewhere = ranked.filter(p => nodes.has('s' + p.session));
    return [...new Set([...ranked.slice(0, mostOfEach), ...elsewhere.slice(0, mostOfEach)])];
  };
  for (const l of some) {
    const lock = node('l' + l.id, {kind: 'lock', text: l.path, title: l.path});
    const waiters = first(l, l.waiting, p => p.session + '>' + l.id);
    const holders = first(l, l.holders, p => l.id + '>' + p.session);
    for (const p of waiters) join(person(l, p), lock, '', deadEdges.has(p.session + '>' + l.id));
    if (l.waits > waiters.length) {
      join(node('w' + l.id, {kind: 'more', text: '+ ' + number(l.waits - waiters.length)}), lock, '');
    }
    for (const p of holders) join(lock, person(l, p), 'has', deadEdges.has(l.id + '>' + p.session));
    if (l.held > holders.length) {
      join(lock, node('h' + l.id, {kind: 'more', text: '+ ' + number(l.held - holders.length)}), 'has');
    }
  }
  layers([...nodes.values()]);
  return {drawing: paint([...nodes.values()], edges, some, circles, room), left: all.length - some.length};
}

// layers puts each node to the right of those that point to it, except where that goes round in a circle.
function layers(nodes) {
  const state = new Map();
  const visit = n => {
    state.set(n, 1);
    for (const e of n.out) {
      if (state.get(e.to) === 1) e.back = true;
      else if (!state.has(e.to)) visit(e.to);
    }
    state.set(n, 2);
  };
  for (const n of nodes) if (!n.into.length) visit(n);
  for (const n of nodes) if (!state.has(n)) visit(n);
  const layer = n => n.layer ??= Math.max(-1, ...n.into.filter(e => !e.back).map(e => layer(e.from))) + 1;
  nodes.forEach(layer);
  // One that only waits stands next to the line that it waits for.
  for (const n of nodes) if (!n.into.length) n.layer = Math.min(...n.out.map(e => e.to.layer)) - 1;
}

const high = 26, gap = 8;

function paint(nodes, edges, some, circles, room) {
  const columns = [];
  for (const n of nodes) (columns[n.layer] ||= []).push(n);
  const rows = Math.max(...columns.map(c => c?.length || 0));
  const tall = rows * (high + gap) + gap;
  const place = c => c.forEach((n, i) => { n.y = gap + (tall - gap - c.length * (high + gap)) / 2 + i * (high + gap); });
  columns.forEach(c => c && place(c));
  const middle = n => { const of = [...n.into.map(e => e.from), ...n.out.map(e => e.to)]; return of.reduce((s, o) => s + o.y, 0) / (of.length || 1); };
  for (let round = 0; round < 6; round++) for (const c of columns) {
    if (!c) continue;
    const at = new Map(c.map(n => [n, middle(n)]));
    c.sort((a, b) => at.get(a) - at.get(b) || (a.key < b.key ? -1 : 1));
    place(c);
  }
  // Where there is little room the boxes are narrower, down to seven letters.
  const [side, apart] = room < 480 ? [16, 18] : [26, 36];
  const rounds = edges.filter(e => e.to.layer <= e.from.layer), margin = rounds.length ? side : 2;
  const wide = Math.max(56, Math.min(122, Math.floor((room - 2 * margin + apart) / columns.length) - apart));
  const letters = Math.floor((wide - 8) / 7.3);
  const x = n => margin + n.layer * (wide + apart);
  const width = columns.length * (wide + apart) - apart + 2 * margin, height = tall + rounds.length * 9;
  const lines = edges.map(e => {
    const y1 = e.from.y + high / 2, y2 = e.to.y + high / 2, x1 = x(e.from) + wide, x2 = x(e.to) - 6;
    const bend = Math.max(14, (x2 - x1) / 2), low = tall + rounds.indexOf(e) * 9 + 2;
    const d = rounds.includes(e) ? // below all, and in again from the left
      `M${x1} ${y1}C${x1 + side} ${y1} ${x1 + side} ${low} ${x1 - 8} ${low}H${x2 + 14}C${x2 - side + 6} ${low} ${x2 - side + 6} ${y2} ${x2} ${y2}` :
      `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
    return svg('g', {}, svg('path', {d, class: 'edge ' + e.kind}),
      svg('path', {d: `M${x2 + 6} ${y2}l-8 -4v8z`, class: 'tip ' + e.kind}));
  });
  const boxes = nodes.map(n => {
    const g = svg('g', {class: 'node ' + n.kind, transform: `translate(${x(n)} ${n.y})`},
      svg('title', {}, n.title || n.text),
      svg('rect', {width: wide, height: high, rx: n.kind === 'lock' ? 4 : 13}),
      svg('text', {x: wide / 2, y: 17, 'text-anchor': 'middle'}, n.kind === 'lock' ? cutFront(n.text, letters + 1) : cut(n.text, letters)));
    if (n.hue !== undefined) g.style.setProperty('--hue', n.hue);
    return g;
  });
  const says = many(some.length, 'line', 'lines') + ' with their waiters and holders' +
    (circles?.length ? '; ' + many(circles.length, 'possible deadlock', 'possible deadlocks') + ', listed above the lines' : '') + '. The list of lines has the same.';
  const s = svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': says}, ...lines, ...boxes);
  s.style.width = width + 'px';       // it shrinks to what there is room for,
  s.style.minWidth = 0.74 * width + 'px'; // but not so much that it cannot be read
  return s;
}

// drawMargins draws for how long holds were certain, second by second, and the time that they should have.
export function drawMargins(margins, steady) {
  const most = Math.max(steady, ...margins, 1), n = margins.length;
  const y = v => 54 - 50 * v / most;
  const s = svg('svg', {class: 'margins', viewBox: '0 0 120 56', preserveAspectRatio: 'none', role: 'img',
    'aria-label': 'how long holds were certain, in the last two minutes'});
  let from = -1;
  for (let i = 0; i <= n; i++) {
    const held = i < n && margins[i] >= 0;
    if (held && from < 0) from = i;
    if (held || from < 0) continue;
    const points = [];
    for (let k = from; k < i; k++) points.push(`${120 - n + k} ${y(margins[k])}`, `${121 - n + k} ${y(margins[k])}`);
    s.append(svg('path', {class: 'area', d: `M${120 - n + from} 56L${points.join('L')}L${120 - n + i} 56z`}),
      svg('path', {class: 'edge', d: 'M' + points.join('L')}));
    from = -1;
  }
  if (steady) s.append(svg('path', {class: 'steady', d: `M0 ${y(steady)}H120`}));
  return s;
}

// drawGrants draws who held a line, from the first grant that is known until now.
export function drawGrants(grants, now) {
  const from = grants[0].seen, all = Math.max(now - from, 1);
  const s = svg('svg', {class: 'strip', viewBox: '0 0 1000 10', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  const lanes = []; // until when each is taken: several may hold at once
  const bars = grants.map(g => {
    const x = 1000 * (g.seen - from) / all, end = 1000 * ((g.ended || now) - from) / all;
    let lane = lanes.findIndex(until => until <= x);
    if (lane < 0) lane = lanes.length;
    lanes[lane] = end;
    return {x, end, lane, hue: hue(g.who.session || g.who.name)};
  });
  for (const b of bars) {
    const bar = svg('rect', {x: b.x, y: 10 * b.lane / lanes.length, width: Math.max(b.end - b.x - 1, 2), height: 10 / lanes.length - (lanes.length > 1 ? 0.5 : 0)});
    bar.style.setProperty('--hue', b.hue);
    s.append(bar);
  }
  return s;
}

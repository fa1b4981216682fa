// Places the nodes of a graph in columns: each one right of all that feed it. Edges that close a cycle do not count.

/** {columns: [[id]], back: Set of edge ids}: the column of a node is its longest path from a node without inputs. */
export function columnsOf(nodes, edges) {
  const out = new Map(nodes.map((node) => [node.id, []]));
  for (const edge of edges) out.get(edge.from)?.push(edge);
  const { order, back } = depthFirst(nodes, out);
  const column = new Map(nodes.map((node) => [node.id, 0]));
  for (const id of order) {
    for (const edge of out.get(id)) {
      if (!back.has(edge.id)) column.set(edge.to, Math.max(column.get(edge.to), column.get(id) + 1));
    }
  }
  pullSources(nodes, out, back, column);
  const columns = [];
  for (const node of nodes) (columns[column.get(node.id)] ??= []).push(node.id);
  for (let index = 0; index < columns.length; index += 1) columns[index] ??= [];
  untangle(
    columns,
    edges.filter((edge) => !back.has(edge.id)),
  );
  return { columns, back };
}

/** The nodes in topological order without the edges back; by a stack of its own, as a chain can be long. */
function depthFirst(nodes, out) {
  const state = new Map();
  const back = new Set();
  const ended = [];
  for (const start of nodes) {
    if (state.has(start.id)) continue;
    const stack = [{ id: start.id, next: 0 }];
    state.set(start.id, "open");
    while (stack.length > 0) {
      const top = stack[stack.length - 1];
      const edge = out.get(top.id)[top.next];
      top.next += 1;
      if (edge === undefined) {
        state.set(top.id, "done");
        ended.push(top.id);
        stack.pop();
      } else if (state.get(edge.to) === "open") {
        back.add(edge.id);
      } else if (!state.has(edge.to)) {
        state.set(edge.to, "open");
        stack.push({ id: edge.to, next: 0 });
      }
    }
  }
  return { order: ended.reverse(), back };
}

/** A node without inputs stands next to what it feeds, not far left of it. */
function pullSources(nodes, out, back, column) {
  const fed = new Set();
  for (const edges of out.values()) for (const edge of edges) if (!back.has(edge.id)) fed.add(edge.to);
  for (const node of nodes) {
    const targets = out.get(node.id).filter((edge) => !back.has(edge.id));
    if (fed.has(node.id) || targets.length === 0) continue;
    column.set(node.id, Math.max(0, Math.min(...targets.map((edge) => column.get(edge.to))) - 1));
  }
}

/** Fewer crossings: orders each column by the mean position of its neighbours, there and back. */
function untangle(columns, edges) {
  const place = new Map();
  const note = (ids) => ids.forEach((id, index) => place.set(id, index / Math.max(1, ids.length - 1)));
  columns.forEach(note);
  const neighbours = (from, to) => {
    const found = new Map();
    for (const edge of edges) {
      if (!found.has(edge[from])) found.set(edge[from], []);
      found.get(edge[from]).push(edge[to]);
    }
    return found;
  };
  const [before, after] = [neighbours("to", "from"), neighbours("from", "to")];
  for (let round = 0; round < 4; round += 1) {
    const [near, ordered] = round % 2 === 0 ? [before, columns] : [after, [...columns].reverse()];
    for (const ids of ordered) {
      const mean = new Map(
        ids.map((id) => {
          const places = (near.get(id) ?? []).map((other) => place.get(other));
          return [id, places.length ? places.reduce((a, b) => a + b, 0) / places.length : place.get(id)];
        }),
      );
      ids.sort((a, b) => mean.get(a) - mean.get(b));
      note(ids);
    }
  }
}

/** The rectangle of each node: {places: Map id → {x, y, width, height}, width, height}. */
export function placed(columns, heightOf, available, { least = 118, most = 190, gap = 60, between = 14 } = {}) {
  const number = Math.max(1, columns.length);
  const width = Math.max(least, Math.min(most, Math.floor((available - gap * (number - 1)) / number)));
  const space = number > 1 ? Math.max(gap, Math.min(90, Math.floor((available - width * number) / (number - 1)))) : 0;
  const heights = columns.map((ids) => ids.reduce((sum, id) => sum + heightOf(id) + between, -between));
  const height = Math.max(0, ...heights);
  const places = new Map();
  columns.forEach((ids, index) => {
    // Free space is spread evenly, which keeps a column of few nodes level with one of many.
    const extra = ids.length > 0 ? Math.min(60, (height - heights[index]) / ids.length) : 0;
    let y = (height - heights[index] - extra * ids.length) / 2 + extra / 2;
    for (const id of ids) {
      places.set(id, { x: index * (width + space), y, width, height: heightOf(id) });
      y += heightOf(id) + between + extra;
    }
  });
  return { places, width: number * width + (number - 1) * space, height };
}

/**
 * A curve from the right side of one node to the left side of another; one that runs back goes around below. `x` and `y`
 * are where its label ends.
 */
export function curve(from, to) {
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + to.height / 2];
  if (x2 > x1) {
    const bend = Math.max(18, (x2 - x1) / 2);
    return { path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, x: x2 - 5, y: y2 };
  }
  const low = Math.max(from.y + from.height, to.y + to.height) + 16;
  return {
    path: `M${x1} ${y1}C${x1 + 40} ${y1} ${x1 + 40} ${low} ${(x1 + x2) / 2} ${low}S${x2 - 40} ${y2} ${x2} ${y2}`,
    x: x2 - 5,
    y: y2,
  };
}

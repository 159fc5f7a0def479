// Rows as text. Pure.

const headings = ['engine', 'case', 'Millrace', 'peer', '', 'unit', 'ratio', 'spread', 'bar', 'goal', 'met']
const toTheRight = new Set([2, 4, 6])

export function table(rows) {
  const lines = [headings, ...rows.map(cells)]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  const rule = widths.map((width) => '-'.repeat(width))
  return [lines[0], rule, ...lines.slice(1)].map((line) => layOut(line, widths)).join('\n')
}

function cells(row) {
  return [
    row.engine,
    row.case,
    row.millrace === null ? '' : figure(row.millrace),
    row.peerName ?? '',
    row.peer === null ? '' : figure(row.peer),
    row.unit,
    row.ratio === null ? '' : figure(row.ratio),
    row.spread === null ? '' : row.spread.map(figure).join('–'),
    row.bar ?? '',
    row.goal === null ? '' : String(row.goal),
    row.problem !== undefined ? 'FAILED' : row.met === null ? '' : row.met ? 'yes' : 'NO',
  ]
}

function layOut(line, widths) {
  return line
    .map((text, column) =>
      toTheRight.has(column) ? text.padStart(widths[column]) : text.padEnd(widths[column]),
    )
    .join('  ')
    .trimEnd()
}

/** Three digits that matter; large numbers in groups. */
export function figure(value) {
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US')
  return String(Number(value.toPrecision(3)))
}

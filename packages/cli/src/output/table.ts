/**
 * Tables for people: aligned columns with a header. On a terminal that is too narrow the flexible columns
 * give way, the widest first; elsewhere (a pipe, a file) nothing is cut. Cells are made harmless here,
 * whoever wrote them.
 */
import type { Paint, Tone } from './paint.ts'
import { cellWidth, cut, pad, plain } from './text.ts'

export type Cell = { readonly text: string; readonly tone?: Tone | undefined }
export type TableColumn = {
  readonly title: string
  readonly flexible?: boolean | undefined
  readonly align?: 'left' | 'right' | undefined
}

const gap = '  '
const narrowest = 8

/**
 * Lines of a table, without a line break at their ends. `columns`: cells of the terminal, or undefined for
 * no limit.
 */
export function renderTable(
  columns: readonly TableColumn[],
  rows: readonly (readonly Cell[])[],
  options: { readonly columns: number | undefined; readonly paint: Paint },
): string[] {
  const clean = rows.map((row) => columns.map((_column, index) => cleaned(row[index])))
  const widths = columns.map((column, index) =>
    Math.max(cellWidth(column.title), ...clean.map((row) => cellWidth(row[index]?.text ?? ''))),
  )
  const fitted = fit(widths, columns, options.columns)
  const line = (cells: readonly Cell[]): string => {
    const parts = cells.map((cell, index) => {
      const width = fitted[index] ?? 0
      const text = pad(cut(cell.text, width), width, columns[index]?.align)
      return cell.tone === undefined ? text : options.paint(text, cell.tone)
    })
    return parts.join(gap).trimEnd()
  }
  const header = line(columns.map((column) => ({ text: column.title, tone: 'faint' })))
  return [header, ...clean.map(line)]
}

const cleaned = (cell: Cell | undefined): Cell => ({
  text: cell === undefined || cell.text === '' ? '-' : plain(cell.text),
  tone: cell?.tone,
})

/** Takes the missing cells from the widest flexible column, one by one, and never below a legible width. */
function fit(
  widths: readonly number[],
  columns: readonly TableColumn[],
  limit: number | undefined,
): number[] {
  const fitted = [...widths]
  if (limit === undefined) return fitted
  const total = (): number => fitted.reduce((sum, width) => sum + width, gap.length * (fitted.length - 1))
  while (total() > limit) {
    let widest = -1
    for (const [index, width] of fitted.entries()) {
      const mayShrink = columns[index]?.flexible === true && width > narrowest
      if (mayShrink && width > (fitted[widest] ?? 0)) widest = index
    }
    if (widest < 0) return fitted
    fitted[widest] = (fitted[widest] ?? 0) - 1
  }
  return fitted
}

/**
 * "Label  value" lines for one thing. Values are made harmless; those with line breaks keep them, indented.
 */
export function renderFields(fields: readonly (readonly [string, Cell])[], paint: Paint): string[] {
  const width = Math.max(0, ...fields.map(([label]) => cellWidth(label)))
  return fields.map(([label, cell]) => {
    const { text, tone } = cleaned(cell)
    return `${paint(pad(label, width), 'faint')}${gap}${tone === undefined ? text : paint(text, tone)}`
  })
}

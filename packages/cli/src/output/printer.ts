/**
 * Where all output goes: data to stdout in the format asked for, words to stderr unless `--quiet`. A `Shape`
 * says how one kind of thing looks to people; programs get the API's object as it is.
 */
import type { Io, Stream } from '../io.ts'
import type { Paint } from './paint.ts'
import { painter, wantsColor } from './paint.ts'
import type { OutputFormat } from './structured.ts'
import { toJson, toJsonLine, toYaml } from './structured.ts'
import type { Cell, TableColumn } from './table.ts'
import { renderFields, renderTable } from './table.ts'
import { plain, plainLines } from './text.ts'
import type { Clock } from './times.ts'

export type Column<T> = TableColumn & { readonly cell: (item: T, clock: Clock) => string | Cell }

/** How one kind of thing looks to people. `name` is what `-o name` prints. */
export type Shape<T> = {
  readonly name: (item: T) => string
  readonly columns: readonly Column<T>[]
  readonly fields: (item: T, clock: Clock) => readonly (readonly [string, string | Cell])[]
}

export type PrinterOptions = {
  readonly format: OutputFormat
  readonly quiet: boolean
  readonly noColor: boolean
  readonly utc: boolean
}

export type Printer = {
  readonly format: OutputFormat
  readonly clock: Clock
  readonly paint: Paint
  /** A page of a list. `empty` is said when there is nothing; `next` when there is more. */
  list<T>(page: { items: readonly T[]; nextCursor?: string | null }, shape: Shape<T>, empty: string): void
  /** One thing in full. */
  one<T>(item: T, shape: Shape<T>): void
  /** One thing as a row: after a change. */
  row<T>(item: T, shape: Shape<T>): void
  /** Any value for programs; for people `lines`. */
  value(value: unknown, lines: readonly string[]): void
  /** Words for people, on stderr, made harmless here; silent with --quiet. */
  say(...lines: readonly string[]): void
  /** Words that are said even with --quiet, made harmless here. */
  warn(line: string): void
}

const cellOf = (value: string | Cell): Cell => (typeof value === 'string' ? { text: value } : value)

const writeLine = (stream: Stream, line: string): void => {
  stream.write(`${line}\n`)
}

/** Value in a format for programs; undefined for `table` and `name`, which need a shape. */
function forPrograms(format: OutputFormat, value: unknown): string | undefined {
  if (format === 'json') return toJson(value)
  if (format === 'jsonl') return Array.isArray(value) ? value.map(toJsonLine).join('\n') : toJsonLine(value)
  if (format === 'yaml') return toYaml(value)
  return undefined
}

export function createPrinter(io: Io, options: PrinterOptions): Printer {
  const paint = painter(wantsColor(io.stdout, io.env, options.noColor))
  const clock: Clock = { now: io.now, zone: io.env['TZ'] === '' ? undefined : io.env['TZ'], utc: options.utc }
  const columns = io.stdout.isTTY === true ? io.stdout.columns : undefined
  const put = (line: string): void => writeLine(io.stdout, line)

  const table = <T>(items: readonly T[], shape: Shape<T>): void => {
    const rows = items.map((item) => shape.columns.map((column) => cellOf(column.cell(item, clock))))
    for (const line of renderTable(shape.columns, rows, { columns, paint })) put(line)
  }
  const structured = (value: unknown): boolean => {
    const text = forPrograms(options.format, value)
    if (text !== undefined && text !== '') put(text)
    return text !== undefined
  }
  const say = (...lines: readonly string[]): void => {
    if (!options.quiet) for (const line of lines) writeLine(io.stderr, plainLines(line))
  }
  return {
    format: options.format,
    clock,
    paint,
    list(page, shape, empty) {
      const { items } = page
      if (options.format === 'name') items.forEach((item) => put(plain(shape.name(item))))
      else if (!structured(options.format === 'jsonl' ? items : page) && items.length > 0) table(items, shape)
      if (items.length === 0) say(empty)
      else if ((page.nextCursor ?? null) !== null && options.format !== 'json' && options.format !== 'yaml') {
        say(`There is more: add --all, or --cursor ${page.nextCursor ?? ''}`)
      }
    },
    one(item, shape) {
      if (options.format === 'name') return put(plain(shape.name(item)))
      if (structured(item)) return
      const fields = shape.fields(item, clock).map(([label, value]) => [label, cellOf(value)] as const)
      for (const line of renderFields(fields, paint)) put(line)
    },
    row(item, shape) {
      if (options.format === 'name') put(plain(shape.name(item)))
      else if (!structured(item)) table([item], shape)
    },
    value(value, lines) {
      if (!structured(value)) lines.forEach(put)
    },
    say,
    warn: (line) => writeLine(io.stderr, plainLines(line)),
  }
}

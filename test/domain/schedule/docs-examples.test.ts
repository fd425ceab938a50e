// Every example of docs/reference/schedules.md is run: console blocks as they stand, each row of each table,
// the library's code. The page is parsed, so a new row or block is a new test; a table that is no longer
// found fails here.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { explainVerdicts } from '@belfry/contract'
import { calendarValue } from '../../../packages/cli/src/commands/calendar-file.ts'
import { runCli } from '../../../packages/cli/src/run-cli.ts'
import {
  compile,
  compileCalendar,
  findDialect,
  type OnExcluded,
  openZoneSource,
  parseRate,
  type Schedule,
  type ScheduleSpec,
} from '../../../packages/server/src/schedule.ts'
import { instant, iso } from './schedule-fixtures.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const page = readFileSync(join(root, 'docs/reference/schedules.md'), 'utf8')
const zones = openZoneSource({ directories: [] })
const folder = mkdtempSync(join(tmpdir(), 'belfry-docs-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Files of the page: a name in a line of its own, then a block with the content. */
const files = new Map(
  [...page.matchAll(/^`(\w+\.\w+)`:\n\n```\w+\n([\s\S]*?)^```$/gm)].map(([, name = '', content = '']) => {
    const path = join(folder, name)
    writeFileSync(path, content)
    return [name, path] as const
  }),
)

/** What a terminal shows; the words of a shell line, with single quotes. */
async function terminal(line: string): Promise<string> {
  let shown = ''
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
  const write = (text: string): number => (shown += text).length
  const argv = words.slice(1).map((word) => files.get(word) ?? word)
  await runCli(argv, { env: {}, now: () => 0, stdout: { write }, stderr: { write } })
  return shown.trimEnd()
}

/** The machine may have newer zone data than the page was written with. */
const withoutData = (text: string): string =>
  text
    .replace(/data \w+ \((?:system|bundled)\)/, 'data …')
    .replace(/"dataVersion": "\w+"/, '"dataVersion": "…"')

type Row = readonly string[]

/** Rows of the tables whose header begins with these cells; code marks are taken off. */
function rowsUnder(...header: Row): readonly Row[] {
  const lines = page.split('\n')
  const start = lines.findIndex((line) => line.startsWith(`| ${header.join(' | ')} |`))
  if (start < 0) throw new Error(`the page has no table ${header.join(', ')}`)
  const end = lines.findIndex((line, i) => i > start && !line.startsWith('|'))
  return lines.slice(start + 2, end).map((line) =>
    line
      .slice(2, -2)
      .split(' | ')
      .map((cell) => cell.replace(/^`([^`]*)`$/, '$1').trim()),
  )
}

function schedule(spec: ScheduleSpec, startAtMs?: number): Schedule {
  const compiled = compile(spec, { zones, ...(startAtMs === undefined ? {} : { startAtMs }) })
  if (!compiled.ok) throw new Error(JSON.stringify(compiled.error))
  return compiled.value
}

function cronOf(dialect: string, expression: string): ScheduleSpec {
  const known = findDialect(dialect)
  if (known === undefined) throw new Error(`the page names a dialect ${dialect}`)
  return { kind: 'cron', dialect: known, expression, ...(known === 'jenkins' ? { seed: 'nightly' } : {}) }
}

function firstTimes(times: Schedule, fromMs: number, count: number): string {
  const found: string[] = []
  let timeMs = times.next(fromMs)
  while (timeMs !== null && found.length < count) {
    found.push(iso(timeMs))
    timeMs = times.next(timeMs)
  }
  return found.join(' ')
}

const NEW_YEAR = instant('2026-01-01T00:00:00Z')
const consoles = [...page.matchAll(/^```console\n\$ (.*)\n([\s\S]*?)^```$/gm)]

describe('console examples', () => {
  test('are found, and so are the files they name', () => {
    expect(consoles.length).toBeGreaterThanOrEqual(6)
    expect(page.match(/^```console$/gm)?.length).toBe(consoles.length)
    expect([...files.keys()]).toEqual(['holidays.yaml', 'fair.yaml', 'cases.json'])
  })

  test.each(consoles.map(([, line = '', shown = '']) => [line, shown.trimEnd()]))(
    '%s',
    async (line, shown) => {
      expect(withoutData(await terminal(line))).toBe(withoutData(shown))
    },
  )
})

describe('tables', () => {
  test.each(rowsUnder('rate', 'means'))('the rate %s', (text, means) => {
    const rate = parseRate(text)
    const said = rate.ok
      ? schedule({ kind: 'rate', everyMs: rate.value }).describe()
      : `refused: ${rate.error.message}`
    expect(said).toBe(means)
  })

  test.each(rowsUnder('dialect', 'expression', 'means'))('%s %s', (dialect, expression, means, first) => {
    const times = schedule(cronOf(dialect ?? '', expression ?? ''))
    expect([times.describe(), firstTimes(times, NEW_YEAR, 1)]).toEqual([means, first])
  })

  test.each(rowsUnder('dialect', 'expression', 'field'))(
    '%s refuses %s',
    (dialect, expression, field, why) => {
      const compiled = compile(cronOf(dialect ?? '', expression ?? ''), { zones })
      expect(compiled).toMatchObject({ ok: false, error: [{ pointer: field, message: why }] })
    },
  )

  test.each(rowsUnder('words', 'start'))('%s from %s', (every = '', start = '', times) => {
    const startAtMs = instant(`${start}T00:00:00Z`)
    const found = schedule({ kind: 'calendar', every }, startAtMs)
    expect(firstTimes(found, startAtMs - 1, 2)).toBe(times)
  })

  test.each(rowsUnder('zone', 'expression'))(
    '%s %s (%s) from %s',
    (zone = '', expression = '', rule = '', after = '', times = '') => {
      const [end = '', choice = ''] = rule === 'default' ? [] : rule.split(' ')
      const dst = { [end]: choice }
      const spec = { kind: 'cron', dialect: 'unix', expression, zone } as const
      const found = schedule(end === '' ? spec : { ...spec, dst })
      expect(firstTimes(found, instant(after), times.split(' ').length)).toBe(times)
    },
  )

  test.each(rowsUnder('dialect', 'expression', 'zone', 'after', 'here'))(
    '%s %s in %s from %s differs from its origin',
    (dialect = '', expression = '', zone = '', after = '', here = '') => {
      const compiled = compile({ ...cronOf(dialect, expression), zone }, { zones })
      const found = compiled.ok
        ? firstTimes(compiled.value, instant(after), here.split(' ').length)
        : `refused at ${compiled.error[0]?.pointer ?? ''}`
      expect(found).toBe(here)
    },
  )

  test('the verdicts of an explanation are all listed, and no others', () => {
    const listed = rowsUnder('verdict', 'means').flatMap(([cell = '']) =>
      cell.replaceAll('`', '').split(', '),
    )
    expect(listed.toSorted()).toEqual([...explainVerdicts].toSorted())
  })

  test.each(rowsUnder('expression', 'calendar', '`--on-excluded`'))(
    '%s but for %s, %s',
    (expression = '', calendar = '', onExcluded = '', after = '', times = '') => {
      const compiled = compileCalendar(calendarValue(calendar, 'the table', '--calendar'), { zones })
      if (!compiled.ok) throw new Error(JSON.stringify(compiled.error))
      const found = schedule({ kind: 'cron', dialect: 'unix', expression }).under({
        skipOn: [compiled.value],
        onExcluded: onExcluded as OnExcluded,
      })
      if (!found.ok) throw new Error(JSON.stringify(found.error))
      const kept = found.value.runningAfter(instant(after), times.split(' ').length)
      expect(kept.times.map(iso).join(' ')).toBe(times)
    },
  )

  test.each(rowsUnder('code', 'for', 'message'))('%s for %s', async (code, flags, message) => {
    const line = `belfry schedule next ${flags ?? ''} --from 2026-01-10T00:00:00Z -o json`
    const { warnings } = JSON.parse(await terminal(line)) as {
      readonly warnings: readonly { readonly code: string; readonly message: string }[]
    }
    expect(warnings.filter((warning) => warning.code === code).map((warning) => warning.message)).toEqual([
      message,
    ])
  })

  test('have as many rows as they should at least', () => {
    const counts = [
      rowsUnder('rate', 'means'),
      rowsUnder('dialect', 'expression', 'means'),
      rowsUnder('dialect', 'expression', 'field'),
      rowsUnder('words', 'start'),
      rowsUnder('zone', 'expression'),
      rowsUnder('code', 'for', 'message'),
      rowsUnder('dialect', 'expression', 'zone', 'after', 'here'),
      rowsUnder('expression', 'calendar', '`--on-excluded`'),
    ].map((rows) => rows.length)
    const least = [13, 34, 20, 9, 23, 17, 20, 7]
    expect(counts.map((count, i) => Math.min(count, least[i] ?? 0))).toEqual(least)
  })
})

/** An expression of the dialect with this text in one field and what it needs in the others. */
function probe(dialect: string, field: string, text: string): string {
  const wrapped = dialect === 'eventbridge'
  const other = wrapped || dialect === 'quartz' ? '?' : '*'
  const fields = {
    ...(dialect === 'quartz' ? { second: '0' } : {}),
    minute: '0',
    hour: '0',
    day: field === 'weekday' ? other : '*',
    month: '*',
    weekday: field === 'weekday' || field === 'day' ? '*' : other,
    ...(wrapped ? { year: '*' } : {}),
    [field]: text,
  }
  const weekday = field === 'day' && text !== '?' ? other : fields.weekday
  const expression = Object.values({ ...fields, weekday }).join(' ')
  return wrapped ? `cron(${expression})` : expression
}

/** Which field a line of the feature table is about; what is not listed is a whole expression. */
const fieldOf: Readonly<Record<string, string>> = {
  'names of months: `MAR`': 'month',
  'names of weekdays: `FRI`': 'weekday',
  'weekday 0': 'weekday',
  'weekday 7': 'weekday',
  'lists, ranges, steps: `1-30/10,45`': 'minute',
  '`5/15`: from 5 on': 'minute',
  '`/15`: the same as `*/15`': 'minute',
  '`22-2`: through midnight': 'hour',
  '`L`: the last day': 'day',
  '`L-3`: three days before it': 'day',
  '`LW`: the last business day': 'day',
  '`15W`: the business day nearest to the 15th': 'day',
  '`1W,15W`: in a list': 'day',
  '`5L`: the last one of a weekday': 'weekday',
  '`5#2`: the second one': 'weekday',
  '`5#2,1#1`: in a list': 'weekday',
  '`H`: drawn from the seed': 'minute',
  '`?` in the day of month': 'day',
}

describe('what each dialect takes', () => {
  const dialects = ['unix', 'kubernetes', 'github', 'quartz', 'eventbridge', 'jenkins']
  const rows = rowsUnder('written', ...dialects)

  test('is listed for every field', () => {
    expect(rows.map(([label]) => label)).toEqual([...Object.keys(fieldOf), '@daily', '@every 90m'])
  })

  test.each(rows)('%s', (label = '', ...cells) => {
    const text = /`([^`]+)`/.exec(label)?.[1] ?? /\d$/.exec(label)?.[0] ?? label
    const field = fieldOf[label]
    const takes = dialects.map((dialect) => {
      const expression = field === undefined ? text : probe(dialect, field, text)
      return compile(cronOf(dialect, expression), { zones }).ok ? 'yes' : '–'
    })
    expect(takes).toEqual(cells)
  })
})

test('the code of the library prints what the page says', () => {
  const [, code = '', shown = ''] =
    /^```ts\n([\s\S]*?)^```\n\nprints\n\n```\n([\s\S]*?)^```$/m.exec(page) ?? []
  const flags = ['--conditions=source', '--input-type=module-typescript', '-e', code]
  const printed = execFileSync(process.execPath, flags, { cwd: root, encoding: 'utf8' })
  expect(printed).toBe(shown)
})

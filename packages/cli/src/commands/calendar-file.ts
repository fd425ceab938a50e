/**
 * Calendars from files: YAML or JSON in the form of a calendar's definition, or iCalendar text as it is. The
 * calendar takes the file's name where it names itself nowhere.
 */
import { basename } from 'node:path'
import type { CompiledCalendar, ScheduleFault } from '@belfry/server/schedule'
import { parse, YAMLParseError } from 'yaml'
import { UsageError } from '../exit-codes.ts'
import { readText } from '../flags.ts'
import type { Io } from '../io.ts'
import type { Evaluator } from './schedule-evaluator.ts'
import { invalid } from './schedule-next-flags.ts'

/** Reads and compiles the files of one flag. `pointer` is the field: faults point below it. */
export async function calendarsOf(
  files: readonly string[],
  where: { readonly flag: string; readonly pointer: string; readonly zoneName: string },
  evaluator: Evaluator,
  io: Io,
): Promise<readonly CompiledCalendar[]> {
  const compiled: CompiledCalendar[] = []
  const faults: ScheduleFault[] = []
  for (const [index, file] of files.entries()) {
    const value = calendarValue(await readText(file, where.flag, io), file, where.flag)
    const fallbackName = basename(file).replace(/\.\w+$/, '') || 'calendar'
    const options = { zoneName: where.zoneName, fallbackName, zones: evaluator.zones }
    const calendar = evaluator.compileCalendar(value, options)
    if (calendar.ok) compiled.push(calendar.value)
    else {
      const at = `${where.pointer}/${index}`
      faults.push(...calendar.error.map((fault) => ({ ...fault, pointer: `${at}${fault.pointer}` })))
    }
  }
  if (faults.length > 0) throw invalid(faults)
  return compiled
}

/** What a file says, unchecked; the text of an iCalendar file is a calendar of that alone. */
export function calendarValue(text: string, file: string, flag: string): unknown {
  if (/^\s*BEGIN:VCALENDAR/i.test(text)) return { ics: text }
  try {
    return parse(text) as unknown
  } catch (cause) {
    const why = cause instanceof YAMLParseError ? (cause.message.split('\n')[0] ?? '') : 'it cannot be read'
    throw new UsageError(`${flag} ${file} is not valid YAML (${why.replace(/:$/, '')}); mend the file`, {
      cause,
    })
  }
}

/**
 * A report of the day before, every night. The planned time, not the present one, says which day: a run that
 * is late, or tried again, writes the same report. It is written whole or not at all.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { defineJob, fail } from 'belfry'

/** Sales of a day, one line each: `2026-12-01,19.90`. */
export const nightlyReport = (folder: string) =>
  defineJob({
    name: 'nightly-report',
    description: 'Sum of the sales of the day before',
    timeoutMs: 600_000,
    async run(_, { scheduledFor, log, heartbeat, signal }) {
      if (scheduledFor === null) fail('start it by its schedule: the planned time says which day is meant')
      const day = new Date(scheduledFor.getTime() - 86_400_000).toISOString().slice(0, 10)
      const lines = (await readFile(join(folder, 'sales.csv'), 'utf8')).split('\n')
      let sum = 0
      for (const [index, line] of lines.entries()) {
        signal.throwIfAborted()
        if (index % 1_000 === 0) heartbeat({ read: index, of: lines.length })
        const [date, amount] = line.split(',')
        if (date === day) sum += Number(amount)
      }
      const file = join(folder, `report-${day}.txt`)
      await writeFile(`${file}.tmp`, `${day}: ${sum.toFixed(2)}\n`)
      await rename(`${file}.tmp`, file)
      log.info('written', { file, sum })
      return { day, sum }
    },
  })

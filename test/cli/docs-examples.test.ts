// The shell examples of docs/reference/schedules.md and of some how-tos: each line of their `sh` blocks
// is a command that a server of the contract takes.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { startCliRig } from './support/cli.ts'

const page = ['reference/schedules.md', 'how-to/retries.md', 'how-to/limits.md', 'how-to/workflow-waits.md']
  .map((path) => readFileSync(fileURLToPath(new URL(`../../docs/${path}`, import.meta.url)), 'utf8'))
  .join('\n')
const lines = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
  .flatMap(([, block = '']) => block.trimEnd().split('\n'))
  .filter((line) => line !== '')

const rig = await startCliRig()
rig.server.store.addSchedule('nightly', { sleepUntil: '2199-12-27T00:00:00Z', sleepReason: '' })
/** Stands for each iCalendar file that is named. */
const folder = mkdtempSync(join(tmpdir(), 'belfry-docs-'))
const event = 'BEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas\nEND:VEVENT\n'
const fileOf = (name: string): string => {
  writeFileSync(join(folder, basename(name)), `BEGIN:VCALENDAR\n${event}END:VCALENDAR\n`)
  return join(folder, basename(name))
}
afterAll(async () => {
  rmSync(folder, { recursive: true })
  await rig.close()
})

test('there are some', () => expect(lines.length).toBeGreaterThanOrEqual(20))

test.each(lines)('%s', async (line) => {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
  expect(words[0]).toBe('belfry')
  const argv = words.slice(1).map((word) => (word.endsWith('.ics') ? fileOf(word) : word))
  const result = await rig.run(argv)
  expect(result.err).not.toContain('error:')
  expect(result.code).toBe(0)
})

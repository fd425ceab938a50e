// The example of docs/how-to/testing.md, as it stands there.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const page = new URL('../../docs/how-to/testing.md', import.meta.url)
/** Beside this test, so that the packages are found from there. */
const file = fileURLToPath(new URL('./testing-docs-example.ts', import.meta.url))

test('does what the page says', async () => {
  const [, code = ''] = /^```ts\n([\s\S]*?)^```$/m.exec(readFileSync(page, 'utf8')) ?? []
  expect(code).toContain('startThrowAwayBelfry')
  writeFileSync(file, `${code}\nexport { reports }\n`)
  try {
    const { reports } = (await import(/* @vite-ignore */ file)) as { reports: string[] }
    const hours = ['01', '02', '03'].map((hour) => `2026-12-01T${hour}:00:00.000Z`)
    expect(reports).toEqual(hours)
  } finally {
    rmSync(file)
  }
}, 60_000)

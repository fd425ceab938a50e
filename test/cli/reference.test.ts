// docs/reference/cli.md is made of the command table: `npx vitest run test/cli/reference.test.ts -u` writes
// it anew.
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { commandTable } from '../../packages/cli/src/command-table.ts'
import { referencePage } from '../../packages/cli/src/reference.ts'

it('is as committed', async () => {
  const path = fileURLToPath(new URL('../../docs/reference/cli.md', import.meta.url))
  await expect(referencePage(commandTable)).toMatchFileSnapshot(path)
})

// The bill of materials: npm makes it from the lock file alone, it names all that the shipped packages bring
// along, and nothing in it lacks a hash or a permitted licence.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { type Bill, faultsOfBill, makeBill, shippedPackages } from '../../scripts/lib/sbom.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

test('holds every shipped package of the lock file, with hash and licence', async () => {
  const [bill, again] = await Promise.all([makeBill(root), makeBill(root)])
  expect(bill).toEqual(again)
  expect(bill).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.5' })
  expect(faultsOfBill(bill)).toEqual([])
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as Parameters<
    typeof shippedPackages
  >[0]
  const named = bill.components.map((component) => component['bom-ref'])
  expect(new Set(named)).toEqual(shippedPackages(lock))
  for (const name of ['fastify', 'pg', 'zod', 'undici', 'openid-client'])
    expect(
      named.some((each) => each.startsWith(`${name}@`)),
      name,
    ).toBe(true)
  // tools of ours are not shipped
  expect(named.some((each) => each.startsWith('vitest@'))).toBe(false)
})

test('tells what is wrong with a bill', () => {
  const component = { 'bom-ref': 'x@1.0.0', name: 'x', version: '1.0.0', purl: 'pkg:npm/x@1.0.0' }
  const bill = (more: object): Bill => ({
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    metadata: { component },
    components: [{ ...component, ...more }],
    dependencies: [],
  })
  const hashes = [{ alg: 'SHA-512', content: 'ab' }]
  const licenses = (id: string) => [{ license: { id } }]
  expect(faultsOfBill(bill({ hashes, licenses: licenses('MIT') }))).toEqual([])
  expect(faultsOfBill(bill({ hashes, licenses: licenses('AGPL-3.0') }))).toEqual([
    'x@1.0.0 has the licence AGPL-3.0',
  ])
  expect(faultsOfBill(bill({ hashes }))).toEqual(['x@1.0.0 names no licence'])
  expect(faultsOfBill(bill({ licenses: licenses('MIT') }))).toEqual(['x@1.0.0 has no SHA-512'])
})

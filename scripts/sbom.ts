// `npm run sbom`: writes the bill of materials to dist/belfry.cdx.json, or to the file that is named. Fails
// where a package has no hash, no licence, or one that is not permitted.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { faultsOfBill, makeBill } from './lib/sbom.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const file = resolve(process.argv[2] ?? join(root, 'dist', 'belfry.cdx.json'))
const bill = await makeBill(root)
const faults = faultsOfBill(bill)
for (const fault of faults) console.error(fault)
mkdirSync(dirname(file), { recursive: true })
writeFileSync(file, `${JSON.stringify(bill, null, 2)}\n`)
console.log(`${bill.components.length} packages in ${file}`)
process.exitCode = faults.length === 0 ? 0 : 1

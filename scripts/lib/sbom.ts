// The bill of materials of what Belfry ships: every package that its own packages bring along, with version,
// hash and licence, in CycloneDX, as npm makes it from the lock file. What changes from run to run is left
// out, so that the same lock file gives the same bill.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Component {
  readonly 'bom-ref': string
  readonly name: string
  readonly group?: string
  readonly version: string
  readonly purl: string
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[]
  readonly licenses?: readonly { readonly license?: { readonly id?: string }; readonly expression?: string }[]
}

export interface Bill {
  readonly bomFormat: string
  readonly specVersion: string
  readonly metadata: { readonly component: Component; readonly [name: string]: unknown }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[]
}

const limitMs = 120_000
const maxBytes = 64 * 1024 * 1024

/** Asks npm; nothing is downloaded. */
export async function makeBill(root: string): Promise<Bill> {
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only']
  const { stdout } = await promisify(execFile)('npm', args, {
    cwd: root,
    timeout: limitMs,
    maxBuffer: maxBytes,
  })
  const made = JSON.parse(stdout) as Bill
  const bill = without(made, 'serialNumber')
  const metadata = without(made.metadata, 'timestamp')
  // npm names the root by the folder that it lies in
  const component = { ...made.metadata.component, name: 'belfry' }
  // not `--omit dev`: that leaves out what is shipped as well, where a tool of ours leans on it too
  const shipped = shippedPackages(JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as Lock)
  const isShipped = (ref: string): boolean => shipped.has(ref) || bill.metadata.component['bom-ref'] === ref
  return {
    ...bill,
    metadata: { ...metadata, component },
    components: bill.components.filter((each) => isShipped(each['bom-ref'])),
    dependencies: bill.dependencies
      .filter(({ ref }) => isShipped(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isShipped) })),
  }
}

function without<T extends object>(value: T, name: string): T {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name)) as T
}

type Lock = {
  readonly packages: Readonly<
    Record<
      string,
      { readonly name?: string; readonly version?: string; readonly dev?: boolean; readonly link?: boolean }
    >
  >
}

/** `name@version` of our own packages and of all that they bring along. */
export function shippedPackages({ packages }: Lock): ReadonlySet<string> {
  const refs = Object.entries(packages).flatMap(([path, { name, version, dev, link }]) => {
    if (path === '' || dev === true || link === true) return []
    const at = path.lastIndexOf('node_modules/')
    return [`${at < 0 ? (name ?? path) : path.slice(at + 'node_modules/'.length)}@${version ?? ''}`]
  })
  return new Set(refs)
}

/**
 * What a reader of the bill would miss, or has to know: a package without hash or licence, or with another
 * one.
 */
export function faultsOfBill({ components }: Bill): string[] {
  return components.filter(isForeign).flatMap((component) => {
    const name = `${component.name}@${component.version}`
    const sha512 = component.hashes?.some(({ alg }) => alg === 'SHA-512') === true
    const licences = (component.licenses ?? []).map(
      ({ license, expression }) => license?.id ?? expression ?? '',
    )
    return [
      ...(sha512 ? [] : [`${name} has no SHA-512`]),
      ...(licences.length > 0 ? [] : [`${name} names no licence`]),
      ...licences
        .filter((licence) => !permitted.has(licence))
        .map((licence) => `${name} has the licence ${licence}`),
    ]
  })
}

const isForeign = (component: Component): boolean => !/^(belfry|@belfry\/[a-z]+)@/.test(component['bom-ref'])

/** Licences that ask for no more than their text and a notice. */
const permitted: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'ISC',
  'MIT',
  'PSF-2.0',
  'PostgreSQL',
  'Python-2.0',
  'Unlicense',
])

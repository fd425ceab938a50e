// Programs in Python that tests lean on: each a virtual environment in the cache that
// scripts/lib/fetch-python-tool.ts fills, outside of the tree.
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

export interface PythonTool {
  readonly name: string
  readonly version: string
  /** What pip installs. */
  readonly packages: readonly string[]
}

/** An emulator of AWS, from another hand than ours. */
export const moto: PythonTool = {
  name: 'moto',
  version: '5.1.12',
  // what its server needs; all else that it can do needs far more
  packages: ['moto==5.1.12', 'flask==3.1.2', 'flask-cors==6.0.1'],
}

/** Asks an API by its OpenAPI document for what nobody would think of. */
export const schemathesis: PythonTool = {
  name: 'schemathesis',
  version: '4.32.5',
  packages: ['schemathesis==4.32.5'],
}

export function pythonToolFolder({ name, version }: PythonTool): string {
  const base =
    process.getuid?.() === 0 ? '/var/cache' : process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
  return join(base, 'belfry-tests', `${name}-${version}`)
}

/** The Python that has it; undefined where there is none. */
export function pythonWith(tool: PythonTool): string | undefined {
  const python = join(pythonToolFolder(tool), 'bin', 'python3')
  return existsSync(python) ? python : undefined
}

/**
 * What a worker pool keeps on disk, so that the next one finds its workers whatever became of the pool: a
 * file a worker, and one that says whose the pool is now. Files are replaced whole; one that cannot be read
 * names nobody.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from '../exit-codes.ts'
import { beginningOf } from './process-identity.ts'

export interface WorkerRecord {
  readonly number: number
  readonly pid: number
  readonly began: string
  /** Of what it was started as; one that differs is out of date. */
  readonly fingerprint: string
  /** It was told to end. */
  readonly draining: boolean
}

export interface PoolDirectory {
  /** Workers of before that still run; what names none is removed. */
  readonly living: () => readonly WorkerRecord[]
  readonly write: (record: WorkerRecord) => void
  readonly remove: (number: number) => void
  /** Gives the pool up. */
  readonly release: () => void
}

const ownerFile = 'pool.json'
const workerFile = (number: number): string => `worker-${number}.json`

/** Takes the pool for this process. Throws UsageError where another has it, or there is no such directory. */
export function openPoolDirectory(path: string): PoolDirectory {
  const at = (name: string): string => join(path, name)
  const put = (name: string, value: object): void => {
    writeFileSync(at(`${name}.new`), JSON.stringify(value), { mode: 0o600 })
    renameSync(at(`${name}.new`), at(name))
  }
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    takeOver(at(ownerFile), path)
  } catch (cause) {
    if (cause instanceof UsageError) throw cause
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new UsageError(`the pool cannot keep its state in ${path} (${why}); give another --state-dir`, {
      cause,
    })
  }
  return {
    living() {
      const names = readdirSync(path).filter((name) => /^worker-\d+\.json$/.test(name))
      const records = names.map((name) => [name, readRecord(at(name))] as const)
      return records.flatMap(([name, record]) => {
        if (record !== undefined && beginningOf(record.pid) === record.began) return [record]
        rmSync(at(name), { force: true })
        return []
      })
    },
    write: (record) => put(workerFile(record.number), record),
    remove: (number) => rmSync(at(workerFile(number)), { force: true }),
    release: () => rmSync(at(ownerFile), { force: true }),
  }
}

/** The file is made by one process only; one of a process that has ended is taken away first. */
function takeOver(file: string, path: string): void {
  const own = JSON.stringify({ pid: process.pid, began: beginningOf(process.pid) ?? '' })
  try {
    writeFileSync(file, own, { flag: 'wx', mode: 0o600 })
    return
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const owner = readJson(file)
  const pid = typeof owner?.['pid'] === 'number' ? owner['pid'] : 0
  if (pid > 0 && beginningOf(pid) === owner?.['began']) {
    throw new UsageError(
      `the process ${pid} runs this pool (${path}); stop it, or give this one another --name`,
    )
  }
  rmSync(file, { force: true })
  writeFileSync(file, own, { flag: 'wx', mode: 0o600 })
}

function readJson(file: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function readRecord(file: string): WorkerRecord | undefined {
  const value = readJson(file)
  const { number, pid, began, fingerprint, draining } = value ?? {}
  if (typeof number !== 'number' || typeof pid !== 'number' || pid <= 1) return undefined
  if (typeof began !== 'string' || typeof fingerprint !== 'string' || typeof draining !== 'boolean')
    return undefined
  return { number, pid, began, fingerprint, draining }
}

/**
 * The data directory of the embedded Postgres for `belfry doctor`, looked at from outside: whose is it, who
 * uses it, is there room. Nothing of it is opened or made.
 */
import { access, constants, stat, statfs } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { Config } from '../config/schema.ts'
import { findDataOwner } from '../postgres/embedded/data-owner.ts'
import { readPidFile } from '../postgres/embedded/leftovers.ts'
import { pidExists } from '../postgres/embedded/process-identity.ts'
import type { Diagnosis } from './diagnosis.ts'

const tooLittleBytes = 256 * 1024 ** 2
const littleBytes = 2 * 1024 ** 3

export async function examineDataDirectory(config: Pick<Config, 'dataDir'>): Promise<Diagnosis[]> {
  const dataDir = resolve(config.dataDir)
  const found = await stat(dataDir).catch(() => undefined)
  const place = found === undefined ? await nearestParent(dataDir) : dataDir
  const directory =
    found === undefined ? await examineMissing(dataDir, place) : await examinePresent(dataDir, found)
  const lock = found?.isDirectory() === true ? [examineLock(dataDir)] : []
  return [directory, ...lock, await examineDisk(place)]
}

async function nearestParent(path: string): Promise<string> {
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    const there = await stat(parent).then(
      () => true,
      () => false,
    )
    if (there || parent === dirname(parent)) return parent
  }
}

const mayWrite = (path: string): Promise<boolean> =>
  access(path, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )

async function examineMissing(dataDir: string, parent: string): Promise<Diagnosis> {
  const name = 'data_directory'
  if (await mayWrite(parent)) {
    const message = `${dataDir} is not there yet; the first start of an embedded Postgres makes it.`
    return { name, status: 'ok', message, fix: null }
  }
  const message = `${dataDir} is not there, and ${userInfo().username} may not make it in ${parent}.`
  const fix = 'Choose another by --data-dir or BELFRY_DATA_DIR, or set DATABASE_URL.'
  return { name, status: 'fail', message, fix }
}

async function examinePresent(
  dataDir: string,
  found: { readonly uid: number; readonly mode: number; isDirectory(): boolean },
): Promise<Diagnosis> {
  const name = 'data_directory'
  const fix = 'Choose another by --data-dir or BELFRY_DATA_DIR.'
  if (!found.isDirectory()) return { name, status: 'fail', message: `${dataDir} is a file.`, fix }
  const mode = (found.mode & 0o777).toString(8).padStart(4, '0')
  const whose = `${dataDir} belongs to uid ${found.uid} (mode ${mode})`
  if (!(await mayWrite(dataDir))) {
    const message = `${whose}, and ${userInfo().username} may not write there.`
    return { name, status: 'fail', message, fix: `Start Belfry as its owner. Or: ${fix}` }
  }
  // As root, another user has to walk through it; that one lists and reads nothing (mode 0711).
  if ((found.mode & 0o066) === 0) return { name, status: 'ok', message: `${whose}.`, fix: null }
  const open = `${whose}: others may look into it.`
  return { name, status: 'warn', message: open, fix: `Run: chmod go-rw ${dataDir}` }
}

function examineLock(dataDir: string): Diagnosis {
  const name = 'data_directory_owner'
  const owner = findDataOwner(dataDir)
  const postmaster = readPidFile(join(dataDir, 'postgres'))
  if (owner !== undefined) {
    const where = owner.certain ? '' : ', as far as can be seen from here (another container?)'
    const message = `Belfry process ${owner.pid} runs its Postgres there${where}.`
    return { name, status: 'ok', message, fix: null }
  }
  if (postmaster !== undefined && pidExists(postmaster.pid)) {
    const message = `No Belfry has it, and process ${postmaster.pid} seems to be a Postgres left behind.`
    const fix = 'The next start on this data directory stops it; nothing is lost.'
    return { name, status: 'warn', message, fix }
  }
  return { name, status: 'ok', message: 'Nobody uses it at this moment.', fix: null }
}

async function examineDisk(place: string): Promise<Diagnosis> {
  const name = 'disk'
  const found = await statfs(place).catch(() => undefined)
  if (found === undefined) {
    const message = `The free space of ${place} cannot be read.`
    return { name, status: 'warn', message, fix: 'Look with df.' }
  }
  const freeBytes = found.bavail * found.bsize
  const message = `${(freeBytes / 1024 ** 3).toFixed(1)} GiB are free for ${place}.`
  if (freeBytes >= littleBytes) return { name, status: 'ok', message, fix: null }
  const fix = 'Make room, or choose another disk by --data-dir: a full disk stops everything.'
  return { name, status: freeBytes < tooLittleBytes ? 'fail' : 'warn', message, fix }
}

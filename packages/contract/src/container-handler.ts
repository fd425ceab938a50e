/**
 * The handler kind `container`: one container of an engine is one attempt. The schema is closed at every
 * depth and knows nothing of the engine's own words: no binds, devices, capabilities, namespaces, users of
 * the host or options of the runtime can be said, so none has to be refused further in. What is not said
 * here (read-only root, no capabilities, no new privileges, default seccomp) is the same for every run and
 * set in one place. Which images and classes of egress a tenant may use is the operator's word.
 */
import { z } from 'zod'
import { nameSchema, safeText } from './common.ts'
import { imageFault } from './image-reference.ts'
import { templateOf } from './placeholders.ts'
import { secretRefSchema } from './secret-refs.ts'

/** Of variables and arguments together: engines and kernels take little more. */
const mostTextLength = 256 * 1024

export const containerInputs = ['stdin', 'file', 'none'] as const
export const containerResults = ['last_line', 'file', 'none'] as const

/** Inside the container, where they are asked for. */
export const containerInputPath = '/belfry/input.json'
export const containerResultPath = '/belfry/result.json'

const printable = /^[^\u0000-\u0008\u000b-\u001f\u007f]*$/
const notPrintable = 'must not contain control characters'
const argument = safeText(32_768).regex(printable, { error: notPrintable })
const argv = z
  .array(argument, { error: 'is a list of arguments, like ["sh", "-c", "…"]; no shell reads one text' })
  .min(1, { error: 'is empty; leave it out to use that of the image' })
  .max(256)
  .refine((items) => items[0] !== '', { error: 'begins with an empty text; name the program' })

const envName = z
  .string()
  .max(128)
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, {
    error: 'is not the name of a variable; use letters, digits and "_", not beginning with a digit',
  })
  .refine((name) => !/^BELFRY_/i.test(name), {
    error: 'variables that begin with "BELFRY_" are set by Belfry; choose another name',
  })
  .refine((name) => !/^(?:https?|all|no|ftp)_proxy$/i.test(name), {
    error: 'is set by Belfry, from `egress`; leave it out',
  })

const envText = safeText(32_768).regex(/^[^\u0000-\u0008\u000a-\u001f\u007f]*$/, {
  error: 'must not contain line breaks or control characters',
})
const envValue = z.union([templateOf(envText), secretRefSchema])

/** Paths that hold what the kernel or Belfry put there. */
const ownPaths = /^\/(?:proc|sys|dev|belfry|etc|bin|sbin|lib|lib64|usr)(?:\/|$)/

const absolutePath = z
  .string()
  .min(1)
  .max(255)
  .regex(/^\/[A-Za-z0-9._/+@-]*$/, { error: 'is not an absolute path of letters, digits and "._/+@-"' })
  .refine((path) => !path.split('/').some((part) => part === '..' || part === '.'), {
    error: 'must not have "." or ".." in it',
  })

const tmpfsPath = absolutePath
  .refine((path) => !/\/\/|.\/$/.test(path), { error: 'must not have empty parts or end with a slash' })
  .refine((path) => path !== '/' && !ownPaths.test(path), {
    error: 'must not cover what the image or the kernel has there; choose a path like /work',
  })

const maxUid = 2 ** 31 - 2
/** As numbers: what a name means is said by the image, and that may be root. */
const userSchema = z.string().superRefine((text, context) => {
  const [, uid, gid] = /^([1-9]\d{0,9}):([1-9]\d{0,9})$/.exec(text) ?? []
  if (uid !== undefined && gid !== undefined && Number(uid) <= maxUid && Number(gid) <= maxUid) return
  const message =
    'is not a pair of numbers above 0, user and group; write it like "1000:1000". Root never runs'
  context.addIssue({ code: 'custom', message })
})

const exitCodes = z
  .array(z.int().min(1, { error: 'is not an exit code from 1 to 255' }).max(255))
  .max(255)
  .refine((codes) => new Set(codes).size === codes.length, { error: 'names a code twice' })

export const containerLimitsSchema = z
  .strictObject({
    memoryMb: z.int().min(8).max(1_048_576).default(256),
    cpuMillis: z
      .int()
      .min(10)
      .max(256_000)
      .default(500)
      .meta({ description: 'Thousandths of a processor: 500 is half of one' }),
    pids: z.int().min(4).max(32_768).default(64).meta({ description: 'Processes and threads at once' }),
    openFiles: z.int().min(16).max(65_536).default(1_024).meta({ description: 'Of each process' }),
  })
  .meta({ id: 'ContainerLimits', description: 'The operator may set lower bounds to them' })

const fields = {
  kind: z.literal('container'),
  image: z
    .string()
    .max(512)
    .superRefine((text, context) => {
      const message = imageFault(text)
      if (message !== undefined) context.addIssue({ code: 'custom', message })
    })
    .meta({
      description: 'Of a registry that the operator allows; by digest the same one runs each time',
      examples: ['registry.example.com/reports/nightly:2.1'],
    }),
  entrypoint: argv.optional().meta({ description: 'In the place of the entrypoint of the image' }),
  command: argv.optional().meta({ description: 'Arguments in the place of those of the image' }),
  env: z
    .record(envName, envValue)
    .refine((env) => Object.keys(env).length <= 128, { error: 'at most 128 variables' })
    .default({})
    .meta({ description: 'Text, which may hold placeholders like {{run.id}}, or `{"secret": NAME}`' }),
  user: userSchema.default('65534:65534').meta({ description: 'Numbers of user and group, never 0' }),
  workingDir: absolutePath.optional(),
  tmpfs: z
    .record(tmpfsPath, z.int().min(1).max(65_536))
    .refine((paths) => Object.keys(paths).length <= 16, { error: 'at most 16 paths' })
    .default({ '/tmp': 16 })
    .meta({ description: 'Where it may write, with sizes in MiB; all else is read-only. Counts as memory' }),
  limits: containerLimitsSchema.prefault({}),
  egress: nameSchema.default('none').meta({
    description:
      '`none`: no network. `internet`: public addresses, through a proxy that the usual variables name. ' +
      'Else the name of a list of hosts that the operator has set up',
  }),
  input: z
    .enum(containerInputs)
    .default('stdin')
    .meta({ description: `How it gets the input of the run, as JSON: \`file\` is ${containerInputPath}` }),
  result: z
    .enum(containerResults)
    .default('last_line')
    .meta({
      description:
        'What the run answers: `last_line` is the last line of standard output, where it is JSON; ' +
        `\`file\` is what it wrote into ${containerResultPath}, which must be JSON`,
    }),
  noRetryExitCodes: exitCodes
    .default([])
    .meta({ description: 'Exit codes after which it is not tried again' }),
  skippedExitCode: z
    .int()
    .min(1)
    .max(255)
    .optional()
    .meta({ description: 'Exit code by which it says that there was nothing to do' }),
  stopGraceMs: z
    .int()
    .min(0)
    .max(10_000)
    .default(3_000)
    .meta({ description: 'From SIGTERM to SIGKILL when it is canceled or out of time' }),
}

type Given = z.infer<z.ZodObject<typeof fields>>

/** What fits together only as a whole, with the field at fault. */
function wholeFault({ env, command, entrypoint, limits, tmpfs, ...rest }: Given) {
  const values = Object.entries(env).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : ''}`,
  )
  const texts = [...values, ...(command ?? []), ...(entrypoint ?? [])]
  if (texts.reduce((sum, text) => sum + text.length, 0) > mostTextLength)
    return { path: ['env'], message: 'with the arguments it is longer than 256 KiB; send the rest as input' }
  const written = Object.values(tmpfs).reduce((sum, sizeMb) => sum + sizeMb, 0)
  if (written > limits.memoryMb)
    return {
      path: ['tmpfs'],
      message:
        `takes ${written} MiB of memory, and limits.memoryMb is ${limits.memoryMb}; ` +
        'raise that, or take less',
    }
  const { skippedExitCode, noRetryExitCodes } = rest
  if (skippedExitCode !== undefined && noRetryExitCodes.includes(skippedExitCode))
    return { path: ['skippedExitCode'], message: 'is one of noRetryExitCodes too; keep one of them' }
  return undefined
}

export const containerHandlerSchema = z
  .strictObject(fields)
  .superRefine((handler, context) => {
    const fault = wholeFault(handler)
    if (fault !== undefined) context.addIssue({ code: 'custom', ...fault })
  })
  .meta({ id: 'ContainerHandler' })
export type ContainerHandlerDefinition = z.infer<typeof containerHandlerSchema>

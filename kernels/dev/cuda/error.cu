/* error.cu - what a CUDA call's error becomes in a device, and which GPU the thread calls. */
#include "kernels/dev/cuda/cuda.cuh"

#include <string.h>
#include <sysexits.h>

int cuda_exit_code(cudaError_t e)
{
	switch (e) {
	case cudaErrorMemoryAllocation:
		return EX_OSERR;
	case cudaErrorNoDevice:
	case cudaErrorInsufficientDriver:
	case cudaErrorInvalidDevice:
	case cudaErrorDevicesUnavailable:
	case cudaErrorECCUncorrectable:
	case cudaErrorNvlinkUncorrectable:
#if !defined(CUDART_VERSION) || CUDART_VERSION >= 13000
	case cudaErrorContained:
#endif
	case cudaErrorHardwareStackError:
	case cudaErrorUnknown:
	case cudaErrorInitializationError:
	case cudaErrorSystemNotReady:
	case cudaErrorSystemDriverMismatch:
	case cudaErrorCompatNotSupportedOnDevice:
	case cudaErrorCallRequiresNewerDriver:
	case cudaErrorStubLibrary:
	case cudaErrorDeviceNotLicensed:
	case cudaErrorMpsConnectionFailed:
	case cudaErrorMpsRpcFailure:
	case cudaErrorMpsClientTerminated:
	case cudaErrorJitCompilerNotFound:
	case cudaErrorJitCompilationDisabled:
	case cudaErrorNoKernelImageForDevice:
	case cudaErrorUnsupportedPtxVersion:
	case cudaErrorInvalidDeviceFunction:
		return EX_UNAVAILABLE;
	case cudaErrorMpsServerNotReady:
	case cudaErrorMpsMaxClientsReached:
	case cudaErrorMpsMaxConnectionsReached:
		return EX_TEMPFAIL;
	case cudaErrorNotPermitted:
		return EX_NOPERM;
	default:
		return EX_SOFTWARE;
	}
}

/* What to do about an error whose own words do not tell. */
static const char *advice(cudaError_t e)
{
	switch (e) {
	case cudaErrorSystemNotReady:
		return "; GPUs behind an NVSwitch need nvidia-fabricmanager to run";
	case cudaErrorCompatNotSupportedOnDevice:
		return "; the libcuda.so.1 found is that of cuda-compat, not the driver's own";
	case cudaErrorStubLibrary:
		return "; the libcuda.so.1 found is a stub for linking, not the driver's";
	default:
		return "";
	}
}

int cuda_fail(struct dev *d, cudaError_t e, const char *call)
{
	cudaGetLastError(); /* clears the error for the next call, unless the context is lost */
	return dev_fail(d, cuda_exit_code(e), "%s: %.*s: %s (%s)%s", d->name,
		(int)strcspn(call, "("), call, cudaGetErrorString(e), cudaGetErrorName(e),
		advice(e));
}

int cuda_enter(struct dev *d)
{
	CUDA_TRY(cudaSetDevice(cuda_of(d)->number));
	return 0;
}

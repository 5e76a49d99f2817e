// The part of Polly that the generated client uses: Debian has no package of it.
using System;
using System.Threading.Tasks;

namespace Polly
{
    public enum OutcomeType
    {
        Successful,
        Failure
    }

    public interface PolicyResult<TResult>
    {
        OutcomeType Outcome { get; }
        TResult Result { get; }
        Exception FinalException { get; }
    }

    public interface ISyncPolicy<TResult>
    {
        PolicyResult<TResult> ExecuteAndCapture(Func<TResult> action);
    }

    public interface IAsyncPolicy<TResult>
    {
        Task<PolicyResult<TResult>> ExecuteAndCaptureAsync(Func<Task<TResult>> action);
    }
}

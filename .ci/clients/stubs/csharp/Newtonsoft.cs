// What Newtonsoft.Json has since version 9: Debian packages an earlier one. In this namespace it precedes the library's.
namespace Org.OpenAPITools
{
    public class CamelCaseNamingStrategy
    {
        public bool OverrideSpecifiedNames { get; set; }
    }

    public class DefaultContractResolver : Newtonsoft.Json.Serialization.DefaultContractResolver
    {
        public CamelCaseNamingStrategy NamingStrategy { get; set; }
    }
}
